//! Finds the package manager that owns a file: it would replace an edited file at the next upgrade,
//! and report it as damaged until then.

use std::path::Path;
use std::process::{Command, Stdio};

/// Characters that `dpkg-query` reads as a pattern.
const PATTERN: [char; 4] = ['*', '?', '[', '\\'];
/// The databases of rpm.
const RPM: [&str; 2] = ["/usr/lib/sysimage/rpm", "/var/lib/rpm"];
/// Directories of files that no rpm has.
const LOCAL: [&str; 3] = ["/usr/local", "/opt", "/home"];

/// Returns the name of the package manager that owns a file: as `dpkg-query` says for dpkg, by its place
/// for Nix, Guix and rpm.
#[must_use]
pub fn owner_of(file: &Path) -> Option<&'static str> {
    let real = file.canonicalize().ok()?;
    let mut stores = [("/nix/store", "Nix"), ("/gnu/store", "Guix")].into_iter();
    if let Some((_, manager)) = stores.find(|(store, _)| real.starts_with(store)) {
        return Some(manager);
    }
    if LOCAL.iter().any(|dir| real.starts_with(dir)) {
        return None;
    }
    if let Some(is_owned) = is_of_dpkg(&real) {
        return is_owned.then_some("dpkg");
    }
    let has_rpm = RPM.iter().any(|dir| Path::new(dir).is_dir());
    (has_rpm && real.starts_with("/usr")).then_some("rpm")
}

/// True if a package of dpkg has the file, with or without the `/usr` of merged directories; `None` if there is
/// no dpkg.
fn is_of_dpkg(file: &Path) -> Option<bool> {
    let named = file.to_str().filter(|name| !name.contains(PATTERN));
    let merged = named.and_then(|name| name.strip_prefix("/usr")).filter(|it| it.starts_with('/'));
    let mut query = Command::new("dpkg-query");
    query.args(["--search", "--"]).args(named).args(merged);
    let found = query.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    // One of the two names is enough, and the status is 1 then.
    Some(!found.stdout.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_just_made_has_no_owner() {
        let file = tempfile::NamedTempFile::new_in("/tmp").unwrap();
        assert_eq!(owner_of(file.path()), None);
        let own = is_of_dpkg(Path::new("/usr/bin/dpkg-query"));
        assert!(own.unwrap_or(true), "dpkg has itself");
        assert_ne!(is_of_dpkg(Path::new("/usr/bin/dpkg-quer")), Some(true));
    }
}
