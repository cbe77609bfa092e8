//! Detects trees that package managers change in place: virtual environments and the prefixes of
//! Python and conda. They are indexed like stores, but nothing in them is immutable. Each directory
//! that a search passes becomes a condition of its answer.

use std::fs::{DirEntry, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Names of the directories into which `pip` and Debian install packages.
const PACKAGES: [&str; 2] = ["site-packages", "dist-packages"];

/// Returns true for a tree that is changed in place: a virtual environment (PEP 405), a conda
/// environment, a prefix with Python packages of its own, or one of [`trees_beside`].
#[must_use]
pub(crate) fn is_changed_in_place(tree: &Path) -> bool {
    let has_packages = |dir: &PathBuf| PACKAGES.iter().any(|name| dir.join(name).is_dir());
    let above = tree.parent().and_then(Path::parent);
    above.is_some_and(|prefix| python_dirs(prefix).iter().any(|dir| dir == tree))
        || tree.join("pyvenv.cfg").is_file()
        || tree.join("conda-meta").is_dir()
        || python_dirs(tree).iter().any(has_packages)
}

/// Returns the directories `lib/python3*` and `lib/pypy3*` of a prefix.
fn python_dirs(prefix: &Path) -> Vec<PathBuf> {
    let Ok(entries) = prefix.join("lib").read_dir() else { return Vec::new() };
    let is_python = |entry: &DirEntry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        // The entry has its kind, so only a link needs a `stat`.
        let is_dir = || match entry.file_type() {
            Ok(kind) if !kind.is_symlink() => kind.is_dir(),
            _ => entry.path().is_dir(),
        };
        (name.starts_with("python3") || name.starts_with("pypy3")) && is_dir()
    };
    let mut dirs: Vec<PathBuf> =
        entries.flatten().filter(is_python).map(|entry| entry.path()).collect();
    dirs.sort();
    dirs
}

/// Returns the trees from which a Python loads extension modules: `lib/python3*` of the prefix of
/// its path (a virtual environment) and of the prefix of its real path. For other programs it
/// returns none, without a system call.
#[must_use]
pub fn trees_beside(named: &Path, real: &Path) -> Vec<PathBuf> {
    let is_python = |path: &&Path| {
        path.file_name().is_some_and(|name| {
            let name = name.to_string_lossy();
            name.starts_with("python") || name.starts_with("pypy")
        })
    };
    let paths = [named, real].into_iter().filter(is_python);
    let paths = paths.filter_map(|path| std::path::absolute(path).ok());
    let mut prefixes: Vec<PathBuf> = Vec::new();
    for prefix in paths.filter_map(|path| path.parent()?.parent().map(Path::to_owned)) {
        if !prefixes.contains(&prefix) {
            prefixes.push(prefix);
        }
    }
    prefixes.iter().flat_map(|prefix| python_dirs(prefix)).collect()
}

/// Returns the Python from which a virtual environment was created (PEP 405: `home` in its
/// `pyvenv.cfg`): the real path of its program, and the trees from which it loads extension
/// modules. Returns `None` if the tree is not a virtual environment or its Python does not exist.
#[must_use]
pub fn python_of(tree: &Path) -> Option<(PathBuf, Vec<PathBuf>)> {
    /// Maximum number of bytes read; `venv` writes a few hundred.
    const LONGEST: u64 = 64 * 1024;
    let mut text = String::new();
    File::open(tree.join("pyvenv.cfg")).ok()?.take(LONGEST).read_to_string(&mut text).ok()?;
    let settings = text.lines().filter_map(|line| line.split_once('='));
    let home = settings.map(|(key, value)| (key.trim(), value.trim()));
    let home = home.filter(|(key, _)| key.eq_ignore_ascii_case("home")).map(|(_, home)| home);
    let home = home.map(Path::new).find(|home| home.is_absolute())?;
    // The environment's own program is a link to the original or a copy of it.
    let tree = tree.canonicalize().ok()?;
    let candidates = [tree.join("bin/python"), tree.join("bin/python3")];
    let linked = candidates.iter().filter_map(|path| path.canonicalize().ok());
    let mut linked = linked.filter(|program| !program.starts_with(&tree));
    let in_home =
        || ["python3", "python"].iter().find_map(|name| home.join(name).canonicalize().ok());
    let program = linked.next().or_else(in_home)?;
    let trees = trees_beside(&home.join("python3"), &program);
    Some((program, trees))
}

/// Returns the time at which packages were last installed in trees or removed from them: an entry is
/// created or removed in a directory of packages.
#[must_use]
pub fn last_installed(trees: &[PathBuf]) -> Option<SystemTime> {
    package_dirs(trees).filter_map(|dir| dir.metadata().ok()?.modified().ok()).max()
}

/// Returns the directories of these trees into which packages are installed; they may not exist.
pub fn package_dirs(trees: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
    trees.iter().flat_map(|tree| PACKAGES.map(|name| tree.join(name)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn an_environment_is_changed_in_place_and_a_plain_store_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for made in ["venv", "conda/conda-meta", "py/lib/python3.11/site-packages", "store/a/lib"] {
            fs::create_dir_all(at(made)).unwrap();
        }
        fs::write(at("venv/pyvenv.cfg"), "").unwrap();
        let trees = ["venv", "conda", "py", "py/lib/python3.11", "store"];
        let found = trees.map(|tree| is_changed_in_place(&at(tree)));
        assert_eq!(found, [true, true, true, true, false]);
    }

    #[test]
    fn the_python_of_an_environment_is_the_one_it_was_made_from() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        for made in ["venv/bin", "venv/lib/python3.9", "base/bin", "base/lib/python3.9", "plain"] {
            fs::create_dir_all(at(made)).unwrap();
        }
        for program in ["base/bin/python3.9", "base/bin/python3.8"] {
            fs::write(at(program), "").unwrap();
        }
        symlink("python3.8", at("base/bin/python3")).unwrap();
        let home =
            format!("include-system-site-packages = false\nHome= {}/base/bin\n", root.display());
        fs::write(at("venv/pyvenv.cfg"), home).unwrap();
        let trees = vec![at("base/lib/python3.9")];
        // Only a link shows the original; a copy does not.
        fs::write(at("venv/bin/python"), "").unwrap();
        assert_eq!(python_of(&at("venv")), Some((at("base/bin/python3.8"), trees.clone())));
        symlink(at("base/bin/python3.9"), at("venv/bin/python3")).unwrap();
        assert_eq!(python_of(&at("venv")), Some((at("base/bin/python3.9"), trees)));
        assert_eq!(python_of(&at("plain")), None);
        fs::write(at("venv/pyvenv.cfg"), "home = /nowhere\n").unwrap();
        fs::remove_file(at("venv/bin/python3")).unwrap();
        assert_eq!(python_of(&at("venv")), None);
    }

    #[test]
    fn a_python_loads_from_its_environment_and_from_its_own_prefix() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        for made in ["venv/bin", "venv/lib/python3.9", "usr/bin", "usr/lib/python3", "usr/lib/x"] {
            fs::create_dir_all(at(made)).unwrap();
        }
        fs::write(at("usr/bin/python3.9"), "").unwrap();
        fs::write(at("usr/bin/git"), "").unwrap();
        symlink(at("usr/bin/python3.9"), at("venv/bin/python")).unwrap();
        let expected = [at("venv/lib/python3.9"), at("usr/lib/python3")];
        assert_eq!(trees_beside(&at("venv/bin/python"), &at("usr/bin/python3.9")), expected);
        assert!(trees_beside(&at("usr/bin/git"), &at("usr/bin/git")).is_empty());
    }
}
