//! Trees of files: copied, measured and compared.

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

/// One file of a tree, with the data that a comparison needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Its path below the tree.
    pub path: PathBuf,
    /// Its inode: another inode is another file. 0 for a link, which is compared by its target.
    pub ino: u64,
    /// The target of a link.
    pub target: Option<PathBuf>,
    /// Its size on disk in bytes.
    pub bytes: u64,
    /// True for a directory.
    pub is_dir: bool,
}

/// Returns the entries of a tree, sorted by path.
///
/// # Errors
/// Returns an error if a directory cannot be read.
pub(super) fn entries(root: &Path) -> Result<Vec<Entry>> {
    let mut all = Vec::new();
    let mut left = vec![PathBuf::new()];
    while let Some(dir) = left.pop() {
        let here = root.join(&dir);
        let named = || here.display().to_string();
        for entry in fs::read_dir(&here).with_context(named)? {
            let name = entry.with_context(named)?.file_name();
            let found = entry_of(&here.join(&name), dir.join(&name));
            let found = found.with_context(|| here.join(&name).display().to_string())?;
            if found.is_dir {
                left.push(found.path.clone());
            }
            all.push(found);
        }
    }
    all.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(all)
}

fn entry_of(file: &Path, path: PathBuf) -> io::Result<Entry> {
    let about = file.symlink_metadata()?;
    // The size of a directory depends on the file system; only its entries count.
    let bytes = if about.is_dir() { 0 } else { about.len() };
    let target = about.is_symlink().then(|| file.read_link()).transpose()?;
    let ino = if target.is_some() { 0 } else { about.ino() };
    Ok(Entry { path, ino, target, bytes, is_dir: about.is_dir() })
}
