//! Trees of files: copied, measured and compared.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::compare::error::CompareError;

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
pub(super) fn copy_tree(from: &Path, to: &Path, how: How) -> Result<(), CompareError> {
    let failed = |path: &Path, error: io::Error| CompareError::io(path)(error);
    let about = from.symlink_metadata().map_err(|error| failed(from, error))?;
    let kind = about.file_type();
    if kind.is_dir() {
        fs::create_dir_all(to).map_err(|error| failed(to, error))?;
        for entry in fs::read_dir(from).map_err(|error| failed(from, error))? {
            let name = entry.map_err(|error| failed(from, error))?.file_name();
            copy_tree(&from.join(&name), &to.join(&name), how)?;
        }
        // A read-only directory, as in stores, could not be filled.
        let writable = fs::Permissions::from_mode(about.mode() & 0o7777 | 0o700);
        fs::set_permissions(to, writable).map_err(|error| failed(to, error))?;
    } else if kind.is_symlink() {
        let target = from.read_link().map_err(|error| failed(from, error))?;
        symlink(target, to).map_err(|error| failed(to, error))?;
    } else if kind.is_file() && how == How::Linked {
        fs::hard_link(from, to).map_err(|error| failed(to, error))?;
    } else if kind.is_file() {
        copy_file(from, to, &about).map_err(|error| failed(from, error))?;
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
pub(super) fn entries(root: &Path) -> Result<Vec<Entry>, CompareError> {
    let mut all = Vec::new();
    let mut left = vec![PathBuf::new()];
    while let Some(dir) = left.pop() {
        let here = root.join(&dir);
        for entry in fs::read_dir(&here).map_err(CompareError::io(&here))? {
            let name = entry.map_err(CompareError::io(&here))?.file_name();
            let found = entry_of(&here.join(&name), dir.join(&name));
            let found = found.map_err(CompareError::io(&here.join(&name)))?;
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
