//! The programs of a traced run and the packages that they searched (`becalm index --paths-from`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use becalm_core::index::build::is_in_package;
use becalm_host::path_table::{Packages, PathStore};
use bstr::{BString, ByteSlice};
use serde::Deserialize;

use crate::index::error::IndexError;
use crate::path::{path_bytes, path_of};

/// The schema of `becalm trace --json`.
const SCHEMA: &str = "becalm/trace/1";

/// Programs and directories of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traced {
    /// The programs that it started, in order, each once.
    pub programs: Vec<PathBuf>,
    /// The packages that it searched, by store.
    pub stores: Vec<PathStore>,
    /// The directories that it searched and that are in no package, those with the most misses first.
    pub outside: Vec<BString>,
}

#[derive(Deserialize)]
struct Record {
    schema: String,
    images: Vec<Image>,
}

#[derive(Deserialize)]
struct Image {
    file: String,
    interpreter: Option<String>,
    secure: bool,
    classes: Vec<Class>,
}

#[derive(Deserialize)]
struct Class {
    dirs: Vec<Dir>,
    repeated: Repeated,
}

#[derive(Deserialize)]
struct Dir {
    path: String,
    misses: u64,
}

#[derive(Deserialize)]
struct Repeated {
    paths: Vec<RepeatedPath>,
}

#[derive(Deserialize)]
struct RepeatedPath {
    path: String,
}

impl Traced {
    /// Reads a record of `becalm trace --json`. Every directory of a store that is named is a package of
    /// it; elsewhere the directories named `<hash>-<name>` are.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or is no such record.
    pub fn read(path: &Path, named: &[PathBuf]) -> Result<Self, IndexError> {
        let bytes = fs::read(path).map_err(IndexError::io(path))?;
        let record: Record = serde_json::from_slice(&bytes).map_err(IndexError::damaged(path))?;
        if record.schema != SCHEMA {
            return Err(IndexError::NotARecord(path.to_owned()));
        }
        Ok(Self::of(&record, named))
    }

    fn of(record: &Record, named: &[PathBuf]) -> Self {
        let mut traced = Self::default();
        for image in record.images.iter().filter(|image| !image.secure) {
            let program = PathBuf::from(&image.file);
            if image.interpreter.is_some() && !traced.programs.contains(&program) {
                traced.programs.push(program);
            }
        }
        let mut packages: BTreeMap<PathBuf, BTreeSet<BString>> = BTreeMap::new();
        let mut outside: BTreeMap<BString, u64> = BTreeMap::new();
        let mut note = |path: &str, misses: u64| match package_of(path.as_bytes(), named) {
            Some((store, package)) => {
                packages.entry(store).or_default().insert(package);
            }
            None if path.starts_with('/') && misses > 0 => {
                *outside.entry(path.into()).or_default() += misses;
            }
            None => {}
        };
        for class in record.images.iter().flat_map(|image| &image.classes) {
            class.dirs.iter().for_each(|dir| note(&dir.path, dir.misses));
            class.repeated.paths.iter().for_each(|again| note(&again.path, 0));
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
}

/// Store and package that a path is in.
fn package_of(path: &[u8], named: &[PathBuf]) -> Option<(PathBuf, BString)> {
    for store in named {
        let rest = path.strip_prefix(path_bytes(store).as_slice());
        if let Some(rest) = rest.and_then(|rest| rest.strip_prefix(b"/")) {
            let name = rest.split(|&byte| byte == b'/').next().filter(|name| !name.is_empty())?;
            return Some((store.clone(), name.into()));
        }
    }
    let mut at = 0;
    while let Some(slash) = path.get(at..)?.find_byte(b'/') {
        let store = &path[..at + slash];
        at += slash + 1;
        let name = path[at..].split(|&byte| byte == b'/').next().unwrap_or_default();
        if !store.is_empty() && is_in_package(&[name, b"/"].concat()) {
            return Some((path_of(store.as_bstr()), name.into()));
        }
    }
    None
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
        let traced = Traced::of(&serde_json::from_str(&text).unwrap(), &[]);
        assert_eq!(traced.programs, [PathBuf::from("/usr/bin/perl")]);
        let names = vec![format!("{HASH}-a").into(), format!("{HASH}-b").into()];
        let store = PathStore { path: "/s".into(), packages: Packages::Chosen(names) };
        assert_eq!(traced.stores, [store]);
        assert_eq!(traced.outside, ["/home/u/perl5", "/etc/perl"]);
    }
}
