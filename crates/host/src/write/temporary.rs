//! A temporary file, which is removed unless it replaces its target.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use becalm_core::fs::FileId;
use rustix::fs::{RenameFlags, StatxAttributes};
use rustix::io::Errno;

use super::dir::{Dir, temporary_name};
use super::error::{READ_ONLY, WriteError};
use super::sys::{At, On, Sys};

/// Random numbers that are drawn for a name before it is an error that all are taken.
const DRAWS: usize = 16;

/// A temporary file, open for reading and writing.
pub(super) struct Temporary {
    sys: Sys,
    pub(super) dir: Arc<Dir>,
    name: OsString,
    pub(super) path: PathBuf,
    pub(super) fd: OwnedFd,
    pub(super) id: FileId,
    /// True while the temporary name exists and must be removed.
    named: bool,
}

impl Temporary {
    /// Creates the temporary file for the inode (or hash of a name) `number`. If `locked` is true,
    /// the caller has locked the file to be replaced, so an existing temporary file is a leftover
    /// of a killed run.
    pub(super) fn create(
        sys: &Sys,
        dir: &Arc<Dir>,
        number: u64,
        locked: bool,
    ) -> Result<Self, WriteError> {
        let name = temporary_name(number);
        let at = dir.on().at(&name);
        let mut made = sys.create(&at);
        if matches!(made, Err(Errno::EXIST)) && locked {
            let _ = sys.remove(&at);
            made = sys.create(&at);
        }
        let path = at.path;
        let fd = match made {
            Ok(fd) => fd,
            Err(Errno::EXIST) => return Err(WriteError::Locked(path)),
            Err(errno) => return Err(not_created(sys, dir, path, errno)),
        };
        let (sys, dir, id) = (sys.clone(), dir.clone(), dir.id);
        // Made before the state is read, so that a failure removes the file.
        let mut new = Self { sys, dir, name, path, fd, id, named: true };
        let facts = new.sys.stat(new.on());
        let failed = |errno| WriteError::failed(&new.path, "be inspected", errno);
        new.id = facts.map_err(failed)?.fingerprint.id;
        Ok(new)
    }

    pub(super) fn on(&self) -> On<'_> {
        On { path: &self.path, fd: &self.fd }
    }

    fn at(&self) -> At<'_> {
        self.dir.on().at(&self.name)
    }

    /// Renames the file to its final name in the same directory.
    pub(super) fn rename(
        &mut self,
        name: &OsStr,
        path: &Path,
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        self.sys.rename(&self.at(), &self.dir.on().named(name, path), flags)?;
        self.named = false;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if self.named {
            // If it cannot be removed now, the next run removes it.
            let _ = self.sys.remove(&self.at());
        }
    }
}

/// Makes something under a random number, and draws again if that one is taken: a process and its
/// forked children may draw the same numbers.
pub(super) fn drawn<T, E>(
    mut make: impl FnMut(u64) -> Result<T, E>,
    is_taken: impl Fn(&E) -> bool,
) -> Result<T, E> {
    let mut again = 0..DRAWS;
    loop {
        match make(fastrand::u64(..)) {
            Err(error) if is_taken(&error) && again.next().is_some() => {}
            made => return made,
        }
    }
}

/// Returns the error of a file with a flag that forbids to change or replace it.
pub(super) fn protected(path: &Path, flag: &str) -> WriteError {
    WriteError::refused(path, format!("is {flag} and cannot be changed"))
}

/// Returns the error of a failed creation.
fn not_created(sys: &Sys, dir: &Dir, path: PathBuf, errno: Errno) -> WriteError {
    let is_immutable = || {
        let facts = sys.stat(dir.on());
        facts.is_ok_and(|facts| facts.attributes.contains(StatxAttributes::IMMUTABLE))
    };
    match errno {
        Errno::ROFS => WriteError::refused(&path, READ_ONLY),
        Errno::PERM if is_immutable() => protected(&dir.path, "immutable"),
        _ => WriteError::failed(&path, "make a temporary file beside the one to be written", errno),
    }
}
