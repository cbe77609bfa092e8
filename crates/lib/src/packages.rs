//! Finds the package manager that owns a file: it would replace an edited file at the next upgrade,
//! and report it as damaged until then.

use std::path::Path;

use bstr::ByteSlice;

use crate::path::path_bytes;

/// The lists of the files of packages.
const DPKG: &str = "/var/lib/dpkg/info";
/// The databases of rpm.
const RPM: [&str; 2] = ["/usr/lib/sysimage/rpm", "/var/lib/rpm"];
/// Directories of files that no rpm has.
const LOCAL: [&str; 3] = ["/usr/local", "/opt", "/home"];

/// Returns the name of the package manager that owns a file: by its list for dpkg, by its place for
/// Nix, Guix and rpm.
#[must_use]
pub fn owner_of(file: &Path) -> Option<&'static str> {
    let real = file.canonicalize().ok()?;
    if real.starts_with("/nix/store") {
        return Some("Nix");
    }
    if real.starts_with("/gnu/store") {
        return Some("Guix");
    }
    if LOCAL.iter().any(|dir| real.starts_with(dir)) {
        return None;
    }
    if Path::new(DPKG).is_dir() {
        return is_listed(Path::new(DPKG), &real).then_some("dpkg");
    }
    let has_rpm = RPM.iter().any(|dir| Path::new(dir).is_dir());
    (has_rpm && real.starts_with("/usr")).then_some("rpm")
}

/// True if one of the lists names the file, with or without the `/usr` of merged directories.
fn is_listed(lists: &Path, file: &Path) -> bool {
    let path = path_bytes(file);
    let line = [b"\n", path.as_slice(), b"\n"].concat();
    let merged = path.strip_prefix(b"/usr").map(|path| [b"\n", path, b"\n"].concat());
    let names = |list: &[u8]| {
        list.contains_str(&line) || merged.as_ref().is_some_and(|line| list.contains_str(line))
    };
    let entries = lists.read_dir().into_iter().flatten().flatten();
    let mut lists = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "list"));
    lists.any(|list| std::fs::read(list).is_ok_and(|list| names(&list)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_owned_by_its_whole_path() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.list"), "/.\n/usr/bin/app\n/bin/sh\n").unwrap();
        std::fs::write(dir.path().join("a.md5sums"), "\n/usr/bin/sum\n").unwrap();
        let is_listed = |path: &str| is_listed(dir.path(), Path::new(path));
        assert!(is_listed("/usr/bin/app") && is_listed("/usr/bin/sh"));
        assert!(!is_listed("/usr/bin/ap") && !is_listed("/bin/app") && !is_listed("/usr/bin/sum"));
    }

    #[test]
    fn a_file_that_was_just_made_has_no_owner() {
        let file = tempfile::NamedTempFile::new_in("/tmp").unwrap();
        assert_eq!(owner_of(file.path()), None);
    }
}
