//! A temporary file beside the one it is to replace: removed unless it takes its place.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use becalm_core::fs::FileId;
use rustix::fs::RenameFlags;
use rustix::io::Errno;

use super::dir::{Dir, temporary_name};
use super::error::WriteError;
use super::sys::{self, Sys};

/// A temporary file, open for reading and writing.
pub(super) struct Temporary {
    sys: Sys,
    pub(super) dir: Arc<Dir>,
    name: OsString,
    pub(super) path: PathBuf,
    pub(super) fd: OwnedFd,
    pub(super) id: FileId,
    /// True while the name is ours to remove.
    named: bool,
}

impl Temporary {
    /// Makes the temporary file for inode (or hash of a name) `number`. The caller holds the
    /// lock of what is to be replaced, where `locked` says that there are locks; whatever has
    /// that temporary name already was then left by a run that was killed.
    pub(super) fn create(
        sys: &Sys,
        dir: &Arc<Dir>,
        number: u64,
        locked: bool,
    ) -> Result<Self, WriteError> {
        let name = temporary_name(number);
        let path = dir.path.join(&name);
        let mut made = sys.create(&path, &dir.fd, &name);
        if matches!(made, Err(Errno::EXIST)) && locked {
            let _ = sys.remove(&path, &dir.fd, &name);
            made = sys.create(&path, &dir.fd, &name);
        }
        let fd = match made {
            Ok(fd) => fd,
            Err(Errno::EXIST) => return Err(WriteError::Locked { path }),
            Err(errno) => return Err(not_created(sys, dir, path, errno)),
        };
        let (sys, dir, id) = (sys.clone(), dir.clone(), dir.id);
        let mut new = Self { sys, dir, name, path, fd, id, named: true };
        let facts = new.sys.stat(&new.path, &new.fd).map_err(|errno| WriteError::Failed {
            path: new.path.clone(),
            what: "be looked at",
            source: sys::error(errno),
        })?;
        new.id = facts.fingerprint.id;
        Ok(new)
    }

    /// Gives the file its final name, in the same directory.
    pub(super) fn rename(
        &mut self,
        name: &OsStr,
        path: &Path,
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        self.sys.rename(&self.path, &self.dir.fd, &self.name, (name, path), flags)?;
        self.named = false;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if self.named {
            // What cannot be removed now is left to the next run.
            let _ = self.sys.remove(&self.path, &self.dir.fd, &self.name);
        }
    }
}

/// Why nothing can be made in a directory.
fn not_created(sys: &Sys, dir: &Dir, path: PathBuf, errno: Errno) -> WriteError {
    let marked = || sys.stat(&dir.path, &dir.fd).is_ok_and(|facts| facts.immutable);
    match errno {
        Errno::ROFS => WriteError::ReadOnlyFileSystem { path },
        Errno::PERM if marked() => WriteError::Marked { path: dir.path.clone(), mark: "immutable" },
        _ => WriteError::Failed {
            path,
            what: "make a temporary file beside the one to be written",
            source: sys::error(errno),
        },
    }
}
