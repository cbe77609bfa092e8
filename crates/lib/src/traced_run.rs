//! Reads the programs of a traced run and the packages that they searched (`becalm index --paths-from`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Result;
use becalm_core::index::build::is_in_package;
use becalm_host::path_table::{Packages, PathStore};
use bstr::{BStr, BString, ByteSlice};

use crate::index::make::Traced;
use crate::json;
use crate::path::{path_bytes, path_of};
use crate::trace::report::Report;

/// Reads a record of `becalm trace --json`. In a named store every directory is a package;
/// elsewhere the directories named `<hash>-<name>` are.
///
/// # Errors
/// Returns an error if the file cannot be read or is not such a record.
pub fn read(path: &Path, named: &[PathBuf]) -> Result<Traced> {
    Ok(searched(&json::read_file(path, "becalm trace --json")?, named))
}

/// Returns the programs of a record, and the directories that they searched.
fn searched(record: &Report, named: &[PathBuf]) -> Traced {
    let mut traced = Traced::default();
    // In secure-execution mode the loader ignores paths in `LD_AUDIT` (ld.so(8)).
    for image in record.images.iter().filter(|image| !image.secure) {
        let program = path_of(image.file.as_ref());
        if image.interpreter.is_some() && !traced.programs.contains(&program) {
            traced.programs.push(program);
        }
    }
    let mut packages: BTreeMap<PathBuf, BTreeSet<BString>> = BTreeMap::new();
    let mut outside: BTreeMap<BString, u64> = BTreeMap::new();
    let mut note = |path: &BStr, misses: u64| match package_of(path, named) {
        Some((store, package)) => {
            packages.entry(store).or_default().insert(package);
        }
        None if path.starts_with(b"/") && misses > 0 => {
            *outside.entry(path.to_owned()).or_default() += misses;
        }
        None => {}
    };
    for class in record.images.iter().flat_map(|image| &image.classes) {
        class.dirs.iter().for_each(|dir| note(dir.path.as_ref(), dir.misses));
        class.repeated.paths.iter().for_each(|again| note(again.path.as_ref(), 0));
    }
    let store = |(path, names): (PathBuf, BTreeSet<BString>)| {
        let packages = Packages::Chosen(names.into_iter().collect());
        PathStore { path, packages }
    };
    traced.stores = packages.into_iter().map(store).collect();
    let mut outside: Vec<(BString, u64)> = outside.into_iter().collect();
    outside.sort_by_key(|(_, misses)| std::cmp::Reverse(*misses));
    traced.outside = outside.into_iter().map(|(path, _)| path).collect();
    traced
}

/// Returns the store and the package that a path is in.
fn package_of(path: &[u8], named: &[PathBuf]) -> Option<(PathBuf, BString)> {
    for store in named {
        let rest = path.strip_prefix(path_bytes(store).as_slice());
        if let Some(rest) = rest.and_then(|rest| rest.strip_prefix(b"/")) {
            let name = rest.split(|&byte| byte == b'/').next().filter(|name| !name.is_empty())?;
            return Some((store.clone(), name.into()));
        }
    }
    let slashes = path.find_iter("/").filter(|&at| at > 0);
    let mut places = slashes.map(|at| (&path[..at], path[at + 1..].split_str("/").next()));
    places.find_map(|(store, name)| {
        let name = name.filter(|name| is_in_package(&[name, &b"/"[..]].concat()))?;
        Some((path_of(store.as_bstr()), name.into()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "0123456789abcdfghijklmnpqrsvwxyz";

    #[test]
    fn a_package_is_found_by_its_name_or_its_store() {
        let path = format!("/gnu/store/{HASH}-perl-5/lib/perl5");
        let expected = (PathBuf::from("/gnu/store"), format!("{HASH}-perl-5").into());
        assert_eq!(package_of(path.as_bytes(), &[]), Some(expected));
        assert_eq!(package_of(b"/apps/perl/5/lib", &[]), None);
        let expected = (PathBuf::from("/apps"), "perl".into());
        assert_eq!(package_of(b"/apps/perl/5/lib", &["/apps".into()]), Some(expected));
        assert_eq!(package_of(b"/apps", &["/apps".into()]), None);
        assert_eq!(package_of(b"/applications/x", &["/apps".into()]), None);
    }

    #[test]
    fn programs_packages_and_other_directories_are_read() {
        let text = format!(
            r#"{{"schema": "becalm/trace/1", "images": [
                {{"file": "/usr/bin/perl", "interpreter": "/lib64/ld.so", "secure": false, "classes": [
                  {{"class": "perl", "hits": 1,
                    "dirs": [{{"path": "/s/{HASH}-a/lib", "misses": 3}}, {{"path": "/etc/perl", "misses": 1}},
                             {{"path": "/home/u/perl5", "misses": 4}}, {{"path": "", "misses": 9}}],
                    "repeated": {{"count": 2, "ns": 0, "paths": [{{"path": "/s/{HASH}-b", "times": 2}}]}}}}]}},
                {{"file": "/usr/bin/perl", "interpreter": "/lib64/ld.so", "secure": false, "classes": []}},
                {{"file": "/usr/bin/static", "interpreter": null, "secure": false, "classes": []}},
                {{"file": "/usr/bin/su", "interpreter": "/lib64/ld.so", "secure": true, "classes": []}}]}}"#
        );
        let traced = searched(&serde_json::from_str(&text).unwrap(), &[]);
        assert_eq!(traced.programs, [PathBuf::from("/usr/bin/perl")]);
        let names = vec![format!("{HASH}-a").into(), format!("{HASH}-b").into()];
        let store = PathStore { path: "/s".into(), packages: Packages::Chosen(names) };
        assert_eq!(traced.stores, [store]);
        assert_eq!(traced.outside, ["/home/u/perl5", "/etc/perl"]);
    }
}
