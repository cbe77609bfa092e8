//! The tree before the first edit, and the list of paths that the program looks at.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::Result;
use fastrand::Rng;

/// The folder of the tree that is neither edited nor listed: it has the program.
pub(super) const PROGRAMS: &str = "bin";

const DIRECTORIES: usize = 40;
const FILES: usize = 300;
const DEEPEST: usize = 4;
const HARD_LINKS: usize = 10;

/// The kind of an entry of the tree, links not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Directory,
    Link,
}

/// Makes the tree at `root`. Absolute links in it lead below `shown`, the path of its mount, and to
/// `outside`, a file on another file system.
pub(super) fn make(root: &Path, shown: &Path, outside: &Path, rng: &mut Rng) -> Result<()> {
    let mut directories = vec![PathBuf::new()];
    while directories.len() < DIRECTORIES {
        let above = choice(&directories, rng);
        if above.components().count() < DEEPEST {
            let number = directories.len();
            let name =
                if number % 8 == 0 { format!("a dir {number}") } else { format!("d{number}") };
            let new = above.join(name);
            fs::create_dir(root.join(&new))?;
            directories.push(new);
        }
    }
    let mut files = Vec::new();
    for number in 0..FILES {
        let name =
            if number % 10 == 0 { format!("a file {number}.txt") } else { format!("f{number}") };
        let path = choice(&directories, rng).join(name);
        fs::write(root.join(&path), text(size(rng), rng))?;
        files.push(path);
    }
    for number in 0..HARD_LINKS {
        let name = choice(&directories, rng).join(format!("hard{number}"));
        fs::hard_link(root.join(choice(&files, rng)), root.join(name))?;
    }
    make_links(root, shown, outside, &files, rng)
}

/// Makes links of each kind.
fn make_links(
    root: &Path,
    shown: &Path,
    outside: &Path,
    files: &[PathBuf],
    rng: &mut Rng,
) -> Result<()> {
    for version in ["v1", "v2"] {
        fs::create_dir_all(root.join("versions").join(version).join("lib"))?;
        for file in ["lib/module.py", "setup.cfg"] {
            fs::write(root.join("versions").join(version).join(file), text(500, rng))?;
        }
    }
    let link = |target: &Path, name: &str| symlink(target, root.join(name));
    link(Path::new("v2"), "versions/current")?;
    link(Path::new("current"), "versions/latest")?;
    link(Path::new("current/lib/module.py"), "versions/module.py")?;
    link(Path::new("nowhere"), "dangling")?;
    link(Path::new("loop"), "loop")?;
    link(outside, "outside")?;
    // Through a file and back: it leads nowhere, although the names alone do.
    let up: PathBuf = outside.components().skip(1).map(|_| "..").collect();
    link(&outside.join(up).join(shown.strip_prefix("/")?).join("versions"), "through")?;
    link(&shown.join("versions/current"), "absolute")?;
    for number in 0..12 {
        let file = choice(files, rng);
        let name = file.file_name().unwrap_or_default();
        // Beside the file, by its name alone.
        symlink(name, root.join(file.with_file_name(format!("link{number}"))))?;
    }
    Ok(())
}

/// Returns everything below `root`, by path relative to it, without [`PROGRAMS`].
pub(super) fn walk(root: &Path) -> Result<Vec<(PathBuf, Kind)>> {
    let mut found = Vec::new();
    for (path, kind) in crate::walk::walk(root)? {
        let path = path.strip_prefix(root)?.to_owned();
        let kind = match (kind.is_dir(), kind.is_symlink()) {
            (true, _) => Kind::Directory,
            (_, true) => Kind::Link,
            _ => Kind::File,
        };
        if !path.starts_with(PROGRAMS) {
            found.push((path, kind));
        }
    }
    Ok(found)
}

/// Returns the relative paths to look at that edits may make: those of the tree, and some that do not
/// exist.
pub(super) fn listed(root: &Path, rng: &mut Rng) -> Result<Vec<PathBuf>> {
    let tree = walk(root)?;
    let mut paths: Vec<PathBuf> = tree.iter().map(|(path, _)| path.clone()).collect();
    let of = |wanted| move |(path, kind): &(PathBuf, Kind)| (*kind == wanted).then(|| path.clone());
    let directories: Vec<PathBuf> = tree.iter().filter_map(of(Kind::Directory)).collect();
    let files: Vec<PathBuf> = tree.iter().filter_map(of(Kind::File)).collect();
    for number in 0..40 {
        paths.push(choice(&directories, rng).join(format!("absent{number}")));
    }
    for number in 0..10 {
        let none = choice(&directories, rng).join(format!("none{number}"));
        paths.extend([none.join("x"), none.join("deep/y"), none]);
        paths.push(choice(&files, rng).join("below a file"));
    }
    // The names that directories get when they are renamed, with the first entry of each.
    for directory in &directories {
        let moved = moved(directory);
        let first = tree.iter().find(|(path, _)| path.parent() == Some(directory));
        paths.extend(first.and_then(|(path, _)| Some(moved.join(path.file_name()?))));
        paths.push(moved);
    }
    Ok(paths)
}

/// Returns the text of the list: the paths below `shown`, and other spellings of some.
pub(super) fn list(paths: &[PathBuf], shown: &Path, rng: &mut Rng) -> String {
    let mut spelled: Vec<String> = vec![String::new()];
    spelled.extend(paths.iter().map(|path| path.display().to_string()));
    for number in 0..32 {
        let path = choice(paths, rng).display().to_string();
        spelled.push(match number % 4 {
            0 => format!("{path}/"),
            1 => format!("{path}/."),
            2 => format!("{path}/../versions/setup.cfg"),
            _ => path.replacen('/', "//", 1),
        });
    }
    for below in ["lib/module.py", "lib", "..", "lib/../setup.cfg", "lib/module.py/", "absent"] {
        let links = ["versions/current", "versions/latest", "absolute", "outside", "dangling"];
        spelled.extend(links.map(|link| format!("{link}/{below}")));
    }
    let line = |path: String| format!("{}/{path}\n", shown.display());
    spelled.into_iter().map(line).collect()
}

/// Returns the other name of a directory.
pub(super) fn moved(directory: &Path) -> PathBuf {
    with_ending(directory, "moved")
}

/// Returns a path with a further ending.
pub(super) fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{ending}"));
    path.with_file_name(name)
}

/// Returns a random element of a list that is not empty.
pub(super) fn choice<'a, T>(of: &'a [T], rng: &mut Rng) -> &'a T {
    &of[rng.usize(..of.len())]
}

/// Returns the size of a new file: most are small, some are empty, few are large.
pub(super) fn size(rng: &mut Rng) -> usize {
    match rng.u8(..20) {
        0 => 0,
        1 => rng.usize(10_000..40_000),
        2 if rng.u8(..10) == 0 => rng.usize(130_000..300_000),
        _ => rng.usize(1..3000),
    }
}

/// Returns random lines of text.
pub(super) fn text(length: usize, rng: &mut Rng) -> Vec<u8> {
    (1..=length).map(|at| if at % 50 == 0 { b'\n' } else { rng.lowercase() as u8 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_the_same_tree_and_list_each_time() {
        let made = || {
            let dir = tempfile::tempdir().unwrap();
            let mut rng = Rng::with_seed(7);
            make(dir.path(), Path::new("/shown"), Path::new("/outside"), &mut rng).unwrap();
            let paths = listed(dir.path(), &mut rng).unwrap();
            (walk(dir.path()).unwrap(), list(&paths, Path::new("/shown"), &mut rng))
        };
        let (tree, list) = made();
        assert_eq!((&tree, &list), (&made().0, &made().1));
        assert!(tree.len() > DIRECTORIES + FILES && list.lines().count() > tree.len());
        assert!(list.lines().all(|line| line.starts_with("/shown/")));
    }

    #[test]
    fn a_moved_directory_stays_in_its_parent() {
        assert_eq!(moved(Path::new("a/b c")), Path::new("a/b c.moved"));
    }
}
