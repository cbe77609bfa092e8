//! Single names in a directory: files and links that replace whatever has the name, lock files, and
//! their removal. The caller knows that the names are becalm's.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{FileType, FlockOperation, RenameFlags};
use rustix::io::Errno;

use super::Writer;
use super::dir::temporary_name;
use super::error::WriteError;
use super::file::name;
use super::make::Place;
use super::sys::On;
use super::temporary::{Temporary, drawn};

/// Attempts to lock a file whose name others remove.
const TRIES: usize = 8;

impl Writer {
    /// Writes the file `path`, which replaces a file or link of this name. If several processes
    /// write it at the same time, the last one wins.
    ///
    /// # Errors
    /// Returns an error if it cannot be written; the name is then unchanged.
    pub fn replace(&self, path: &Path, bytes: &[u8], mode: u32) -> Result<(), WriteError> {
        let (place, sys) = (self.place(path)?, &self.sys);
        let failed = place.failed("be written");
        let mut new = drawn(
            |number| Temporary::create(sys, &place.dir, number, false),
            |error| matches!(error, WriteError::Locked { .. }),
        )?;
        sys.write(new.on(), bytes, 0).map_err(&failed)?;
        sys.set_mode(new.on(), mode).map_err(&failed)?;
        self.sync(new.on()).map_err(&failed)?;
        new.rename(&place.name, &place.path, RenameFlags::empty()).map_err(&failed)?;
        self.sync_names(&place)
    }

    /// Makes the symbolic link `path`, as [`Self::replace`] does.
    ///
    /// # Errors
    /// Returns an error if it cannot be made; the name is then unchanged.
    pub fn replace_link(&self, path: &Path, target: &Path) -> Result<(), WriteError> {
        let place = self.place(path)?;
        let link = |number| {
            let temporary = temporary_name(number);
            self.sys.link(&place.dir.on().at(&temporary), target).map(|()| temporary)
        };
        let made = drawn(link, |errno| *errno == Errno::EXIST);
        self.rename_in(&place, made.map_err(place.failed("be made"))?)
    }

    /// Renames a file to another name in the same directory.
    ///
    /// # Errors
    /// Returns an error if that fails.
    pub fn rename(&self, from: &Path, to: &Path) -> Result<(), WriteError> {
        self.rename_in(&self.place(to)?, name(from)?)
    }

    /// Renames a file in the directory of `place` to that place, or removes it.
    fn rename_in(&self, place: &Place, from: OsString) -> Result<(), WriteError> {
        let (sys, from) = (&self.sys, place.dir.on().at(&from));
        sys.rename(&from, &place.at(), RenameFlags::empty()).map_err(|errno| {
            let _ = sys.remove(&from);
            place.failed("be replaced")(errno)
        })?;
        self.sync_names(place)
    }

    /// Removes a file or link. Does nothing if there is none.
    ///
    /// # Errors
    /// Returns an error if it cannot be removed.
    pub fn remove(&self, path: &Path) -> Result<(), WriteError> {
        let place = self.place(path)?;
        match self.sys.remove(&place.at()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(place.failed("be removed")(errno)),
        }
    }

    /// Removes a directory and the files and links in it.
    ///
    /// # Errors
    /// Returns an error if it is a link, has directories, or cannot be removed.
    pub fn remove_with_files(&self, path: &Path) -> Result<(), WriteError> {
        let place = self.place(path)?;
        let removed = place.dir.remove_dir_with(&self.sys, &place.name, |_| true);
        removed.map_err(place.failed("be removed"))
    }

    /// Opens or creates an empty file and locks it; `None` if another process has the lock. A holder may
    /// remove the name: a file that lost its name before it was locked is not the lock any more.
    ///
    /// # Errors
    /// Returns an error if it cannot be opened, or if it is a link or not a regular file.
    pub fn lock(&self, path: &Path) -> Result<Option<OwnedFd>, WriteError> {
        let (place, sys) = (self.place(path)?, &self.sys);
        let failed = place.failed("be locked");
        for _ in 0..TRIES {
            let file = sys.open_or_create_at(&place.at()).map_err(&failed)?;
            let on = On { path, fd: &file };
            let found = sys.stat(on).map_err(&failed)?;
            if found.file_type != FileType::RegularFile {
                return Err(WriteError::refused(path, "not a regular file"));
            }
            match sys.lock(on, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) => return Ok(None),
                locked => locked.map_err(&failed)?,
            }
            let named = sys.stat_at(&place.at());
            if named.is_ok_and(|named| named.fingerprint.id == found.fingerprint.id) {
                return Ok(Some(file));
            }
        }
        Ok(None)
    }
}
