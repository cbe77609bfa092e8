//! A directory in which files are replaced, and what earlier runs that were killed left in it.
//!
//! A temporary file is named after what it is to replace ([`temporary_name`]). Whoever has
//! temporary files in a directory holds a shared lock on it; so whoever gets an exclusive lock
//! knows that all of them are left over, and removes them.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use becalm_core::fs::FileId;
use rustix::fs::{FileType, FlockOperation};
use rustix::io::Errno;

use super::error::WriteError;
use super::sys::{self, Sys};

/// What the name of everything temporary begins with; 16 hexadecimal digits follow.
const PREFIX: &str = ".becalm-new-";

/// A directory, locked against those who would clean it.
pub(super) struct Dir {
    pub(super) fd: OwnedFd,
    pub(super) path: PathBuf,
    pub(super) id: FileId,
    /// How many things of killed runs were removed.
    pub(super) removed: usize,
}

impl Dir {
    /// Opens and locks a directory, and removes what killed runs left in it where `clean`
    /// says so and no other becalm is at work there.
    pub(super) fn open(
        sys: &Sys,
        path: &Path,
        clean: impl FnOnce(FileId) -> bool,
    ) -> Result<Self, WriteError> {
        let failed = |errno| WriteError::Open { path: path.to_owned(), source: sys::error(errno) };
        let fd = sys.open_dir(path).map_err(failed)?;
        let id = sys.stat(path, &fd).map_err(failed)?.fingerprint.id;
        let mut dir = Self { fd, path: path.to_owned(), id, removed: 0 };
        let free = FlockOperation::NonBlockingLockExclusive;
        if clean(id) && sys.lock(path, &dir.fd, free).is_ok() {
            dir.removed = dir.remove_leftovers(sys);
        }
        // Waits no longer than another's cleaning takes. File systems without such locks
        // (NFS, for a directory) are never cleaned but file by file.
        match sys.lock(path, &dir.fd, FlockOperation::LockShared) {
            Ok(()) => Ok(dir),
            Err(errno) if unsupported(errno) => Ok(dir),
            Err(errno) => Err(failed(errno)),
        }
    }

    /// Removes everything temporary; gives how many things that was. What cannot be removed
    /// stays for the next run.
    fn remove_leftovers(&self, sys: &Sys) -> usize {
        let names = sys.list(&self.path, &self.fd).unwrap_or_default();
        let ours = names.iter().filter(|name| is_leftover(name));
        ours.filter(|name| self.remove_leftover(sys, name)).count()
    }

    fn remove_leftover(&self, sys: &Sys, name: &OsStr) -> bool {
        let path = self.path.join(name);
        match sys.stat_at(&path, &self.fd, name).map(|facts| facts.file_type) {
            Ok(FileType::RegularFile) => sys.remove(&path, &self.fd, name).is_ok(),
            Ok(FileType::Directory) => self.remove_links_dir(sys, name).is_ok(),
            _ => false,
        }
    }

    /// Removes a directory that holds nothing but symbolic links.
    pub(super) fn remove_links_dir(&self, sys: &Sys, name: &OsStr) -> Result<(), Errno> {
        let path = self.path.join(name);
        let inner = sys.open_dir_at(&path, &self.fd, name)?;
        for link in sys.list(&path, &inner)? {
            let link_path = path.join(&link);
            if sys.stat_at(&link_path, &inner, &link)?.file_type != FileType::Symlink {
                return Err(Errno::NOTEMPTY);
            }
            sys.remove(&link_path, &inner, &link)?;
        }
        sys.remove_dir(&path, &self.fd, name)
    }
}

/// True for an error that says that the file system has no locks of this kind.
pub(super) fn unsupported(errno: Errno) -> bool {
    matches!(errno, Errno::BADF | Errno::NOLCK | Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL)
}

/// The temporary name of what is to replace the inode `number`, or the name with that hash.
pub(super) fn temporary_name(number: u64) -> OsString {
    format!("{PREFIX}{number:016x}").into()
}

/// True for the name of something temporary: of a run that is at work, or that was killed.
#[must_use]
pub fn is_leftover(name: &OsStr) -> bool {
    let digits = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
    digits.is_some_and(|digits| {
        digits.len() == 16 && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    })
}
