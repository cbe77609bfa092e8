//! Trees of files: copied, measured and compared.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::compare::error::CompareError;

/// More than a comparison may fill.
const MOST: u64 = 1_500_000_000;

/// Bytes that must stay free on the file system.
const SPARE: u64 = 64 << 20;

/// How the files of a tree come into the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// Copied, sharing their blocks with the original where the file system can. Never
    /// linked: a further link changes the time that indexes and backups watch.
    Copied,
    /// As further names of the same files.
    Linked,
}

/// Copies a tree to a path that is not there yet: directories, files, links; with modes,
/// times and, for root, owners.
///
/// # Errors
/// Something cannot be read or written; the line names it.
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
        // A read-only directory, as stores have, could not be filled.
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
        // In a user namespace there may be no such owner.
        let _ = std::os::unix::fs::chown(to, Some(about.uid()), Some(about.gid()));
        fs::set_permissions(to, about.permissions())?;
    }
    if let Ok(modified) = about.modified() {
        // A read-only file that belongs to us may still be opened by its owner's right to
        // change its times; where not, the time is no matter.
        let _ = fs::File::open(to).and_then(|file| file.set_modified(modified));
    }
    Ok(())
}

/// Whether trees of so many bytes may be copied to a directory.
///
/// # Errors
/// They are too large, or there is no room.
pub(super) fn check_room(dir: &Path, bytes: u64) -> Result<(), CompareError> {
    let megabytes = |bytes: u64| bytes.div_ceil(1_000_000);
    if bytes > MOST {
        let (bytes, most) = (megabytes(bytes), megabytes(MOST));
        return Err(CompareError::TooLarge { bytes, most });
    }
    let about = rustix::fs::statvfs(dir).map_err(|errno| CompareError::io(dir)(errno.into()))?;
    let free = about.f_bavail.saturating_mul(about.f_frsize);
    if free < bytes.saturating_add(SPARE) {
        let (free, needed) = (megabytes(free), megabytes(bytes + SPARE));
        return Err(CompareError::NoRoom { dir: dir.to_owned(), free, needed });
    }
    Ok(())
}

/// One file of a tree, as far as a comparison goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Its path below the tree.
    pub path: PathBuf,
    /// Its number: another number is another file. 0 for a link, whose target identifies it.
    pub ino: u64,
    /// The target of a link.
    pub target: Option<PathBuf>,
    /// Bytes that it takes on the disk, or would.
    pub bytes: u64,
    /// True for a directory.
    pub is_dir: bool,
}

/// The entries of a tree, by path.
///
/// # Errors
/// A directory cannot be read.
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
    // A directory takes what its file system gives it; its entries are what counts.
    let bytes = if about.is_dir() { 0 } else { about.len() };
    let target = about.is_symlink().then(|| file.read_link()).transpose()?;
    let ino = if target.is_some() { 0 } else { about.ino() };
    Ok(Entry { path, ino, target, bytes, is_dir: about.is_dir() })
}
