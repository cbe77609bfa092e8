//! Opens the directories of written files and removes leftovers of killed runs from them.
//!
//! A temporary file is named after the file that it will replace ([`temporary_name`]). A run holds
//! a shared lock on each directory in which it has temporary files. If a run gets an exclusive
//! lock, no other run uses the directory, so all temporary files in it are leftovers.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use becalm_core::fs::FileId;
use rustix::fs::{FileType, FlockOperation};
use rustix::io::Errno;

use super::error::WriteError;
use super::sys::{self, On, Sys};

/// Prefix of temporary names; 16 hexadecimal digits follow.
const PREFIX: &str = ".becalm-new-";

/// An open directory with a shared lock, so that no other run removes its temporary files.
pub(super) struct Dir {
    pub(super) fd: OwnedFd,
    pub(super) path: PathBuf,
    pub(super) id: FileId,
    /// Number of removed leftovers.
    pub(super) removed: usize,
}

impl Dir {
    /// Opens and locks a directory. If `clean` returns true and no other becalm uses the directory,
    /// this removes leftovers of killed runs.
    pub(super) fn open(
        sys: &Sys,
        path: &Path,
        clean: impl FnOnce(FileId) -> bool,
    ) -> Result<Self, WriteError> {
        let failed = |errno: Errno| WriteError::failed(path, "be opened", errno);
        let (fd, _) = sys.find(path, sys::DIRECTORY)?;
        let id = sys.stat(On { path, fd: &fd }).map_err(failed)?.fingerprint.id;
        let mut dir = Self { fd, path: path.to_owned(), id, removed: 0 };
        let free = FlockOperation::NonBlockingLockExclusive;
        if clean(id) && sys.lock(dir.on(), free).is_ok() {
            dir.removed = dir.remove_leftovers(sys);
        }
        // The change from an exclusive to a shared lock is not atomic (flock(2)). If another run
        // cleans in between, this one has no temporary file here yet.
        // This waits only while another run removes leftovers. Without such locks (NFS, for a
        // directory) leftovers are removed only when their own file is written again.
        match sys.lock(dir.on(), FlockOperation::LockShared) {
            Ok(()) => Ok(dir),
            Err(errno) if unsupported(errno) => Ok(dir),
            Err(errno) => Err(failed(errno)),
        }
    }

    pub(super) fn on(&self) -> On<'_> {
        On { path: &self.path, fd: &self.fd }
    }

    /// Removes all temporary files and directories and returns their number. If one cannot be
    /// removed, it stays for the next run.
    fn remove_leftovers(&self, sys: &Sys) -> usize {
        let names = sys.list(self.on()).unwrap_or_default();
        let is_removed = |name: &&OsString| {
            let at = self.on().at(name);
            match sys.stat_at(&at).map(|facts| facts.file_type) {
                Ok(FileType::RegularFile) => sys.remove(&at).is_ok(),
                Ok(FileType::Directory) => self.remove_links_dir(sys, name).is_ok(),
                _ => false,
            }
        };
        names.iter().filter(|name| is_leftover(name)).filter(is_removed).count()
    }

    /// Removes a directory of symbolic links. Fails with `NOTEMPTY` if it has anything else.
    pub(super) fn remove_links_dir(&self, sys: &Sys, name: &OsStr) -> Result<(), Errno> {
        self.remove_dir_with(sys, name, |kind| kind == FileType::Symlink)
    }

    /// Removes a directory and the names in it that are of these kinds. Fails with `NOTEMPTY` at
    /// another one.
    pub(super) fn remove_dir_with(
        &self,
        sys: &Sys,
        name: &OsStr,
        is_removed: impl Fn(FileType) -> bool,
    ) -> Result<(), Errno> {
        let at = self.on().at(name);
        let fd = sys.open_dir_at(&at)?;
        let inner = On { path: &at.path, fd: &fd };
        for name in sys.list(inner)? {
            let name = inner.at(&name);
            if !is_removed(sys.stat_at(&name)?.file_type) {
                return Err(Errno::NOTEMPTY);
            }
            sys.remove(&name)?;
        }
        sys.remove_dir(&at)
    }
}

/// Returns true for an error that means that the file system does not support this lock.
pub(super) fn unsupported(errno: Errno) -> bool {
    matches!(errno, Errno::BADF | Errno::NOLCK | Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL)
}

/// Returns the temporary name for an inode number or the hash of a name.
pub(super) fn temporary_name(number: u64) -> OsString {
    format!("{PREFIX}{number:016x}").into()
}

/// Returns true for a temporary name, of a running or a killed run.
#[must_use]
pub(crate) fn is_leftover(name: &OsStr) -> bool {
    let digits = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
    digits.is_some_and(|digits| {
        digits.len() == 16 && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    })
}
