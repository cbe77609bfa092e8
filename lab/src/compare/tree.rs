//! Trees of files: copied, measured and compared.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::child;
use crate::words::naming;

/// Copies a tree to a new path: directories, files, links; with modes, times and, for root, owners. Files
/// share blocks with the original if the file system supports it. They are never linked: a further link
/// changes the ctime, which indexes and backups check.
///
/// # Errors
/// Returns an error that names the file if one cannot be read or written.
pub(super) fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    copied(from, to, "--reflink=auto")
}

/// Does the same with further names of the same files.
///
/// # Errors
/// Returns the errors of [`copy_tree`].
pub(super) fn link_tree(from: &Path, to: &Path) -> Result<()> {
    copied(from, to, "--link")
}

fn copied(from: &Path, to: &Path, files: &str) -> Result<()> {
    let above = to.parent().unwrap_or(to);
    fs::create_dir_all(above).with_context(naming(above))?;
    child::whole(child::command("cp").args(["-a", files]).args([from, to]))?;
    // A read-only directory, as in stores, could not be filled.
    let writable = ["-type", "d", "-exec", "chmod", "u+rwx", "{}", "+"];
    child::whole(child::command("find").arg(to).args(writable)).map(drop)
}

/// The kind of a file of a tree. A regular file has its inode, because another inode is another file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    Directory,
    File(u64),
    Link(PathBuf),
}

/// The files of a tree by their paths below it, each with its size in bytes. The size of a directory depends on
/// the file system and does not count.
pub(super) type Entries = BTreeMap<PathBuf, (What, u64)>;

/// Returns the entries of a tree.
///
/// # Errors
/// Returns an error if a directory cannot be read.
pub(super) fn entries(root: &Path) -> Result<Entries> {
    let mut all = Entries::new();
    let mut left = vec![root.to_owned()];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(&dir).with_context(naming(&dir))? {
            let path = entry.with_context(naming(&dir))?.path();
            let found = entry_of(&path).with_context(naming(&path))?;
            left.extend((found.0 == What::Directory).then(|| path.clone()));
            all.insert(path.strip_prefix(root)?.to_owned(), found);
        }
    }
    Ok(all)
}

fn entry_of(file: &Path) -> io::Result<(What, u64)> {
    let about = file.symlink_metadata()?;
    Ok(match (about.is_dir(), about.is_symlink()) {
        (true, _) => (What::Directory, 0),
        (_, true) => (What::Link(file.read_link()?), about.len()),
        _ => (What::File(about.ino()), about.len()),
    })
}
