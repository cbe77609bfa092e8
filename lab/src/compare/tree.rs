//! Trees of files: copied, measured and compared.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The ways to copy the files of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// Copied, sharing blocks with the original if the file system supports it. Never linked: a
    /// further link changes the ctime, which indexes and backups check.
    Copied,
    /// Linked, as further names of the same files.
    Linked,
}

/// Copies a tree to a new path: directories, files, links; with modes, times and, for root, owners.
///
/// # Errors
/// Returns an error that names the file if one cannot be read or written.
pub(super) fn copy_tree(from: &Path, to: &Path, how: How) -> Result<()> {
    let (source, copy) = (|| from.display().to_string(), || to.display().to_string());
    let about = from.symlink_metadata().with_context(source)?;
    let kind = about.file_type();
    if kind.is_dir() {
        fs::create_dir_all(to).with_context(copy)?;
        for entry in fs::read_dir(from).with_context(source)? {
            let name = entry.with_context(source)?.file_name();
            copy_tree(&from.join(&name), &to.join(&name), how)?;
        }
        // A read-only directory, as in stores, could not be filled.
        let writable = fs::Permissions::from_mode(about.mode() & 0o7777 | 0o700);
        fs::set_permissions(to, writable).with_context(copy)?;
    } else if kind.is_symlink() {
        let target = from.read_link().with_context(source)?;
        symlink(target, to).with_context(copy)?;
    } else if kind.is_file() && how == How::Linked {
        fs::hard_link(from, to).with_context(copy)?;
    } else if kind.is_file() {
        copy_file(from, to, &about).with_context(source)?;
    }
    Ok(())
}

fn copy_file(from: &Path, to: &Path, about: &fs::Metadata) -> io::Result<()> {
    fs::copy(from, to)?;
    if rustix::process::geteuid().is_root() {
        // A user namespace may not have this owner.
        let _ = std::os::unix::fs::chown(to, Some(about.uid()), Some(about.gid()));
        // Set again, because `chown` clears the set-id bits (chown(2)).
        fs::set_permissions(to, about.permissions())?;
    }
    if let Ok(modified) = about.modified() {
        // The owner may open a read-only file to change its times; if that fails, the times do not
        // matter.
        let _ = fs::File::open(to).and_then(|file| file.set_modified(modified));
    }
    Ok(())
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
