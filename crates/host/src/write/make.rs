//! Creates whole files and directories of links under a temporary name and renames them; removes
//! them again.
//!
//! The caller decides about an existing file or directory ([`Existing`]). Only files and
//! directories that the caller recognises as becalm's are replaced or removed.

use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FileType, OFlags, RenameFlags};
use rustix::io::Errno;

use super::Writer;
use super::dir::{Dir, is_leftover, temporary_name};
use super::error::{READ_ONLY, WriteError};
use super::file::{self, name, parent};
use super::sys::{self, At, On};
use super::temporary::Temporary;

/// Maximum size of a file that is shown to the caller. becalm creates no larger ones.
const MAX_SHOWN: u64 = 64 * 1024 * 1024;

/// The mode of created directories.
const DIRECTORY_MODE: u32 = 0o755;
/// Mode bit that marks an unfinished directory, so that a later run recognises it if this process
/// is killed. The sticky bit has no other effect if only the owner can write.
const ON_ITS_WAY: u32 = 0o1000;

/// Returns true for a directory that [`Writer::make_dir`] created and [`Writer::settle_dir`] has
/// not finished.
#[must_use]
pub fn is_on_its_way(dir: &Path) -> bool {
    mode_of(dir).is_some_and(is_unfinished)
}

/// Returns true for a directory that has a mode of those that [`Writer::make_dir`] creates, finished
/// or not.
#[must_use]
pub fn has_mode_of_made(dir: &Path) -> bool {
    mode_of(dir).is_some_and(|mode| mode & 0o7777 == DIRECTORY_MODE || is_unfinished(mode))
}

fn mode_of(dir: &Path) -> Option<u32> {
    dir.symlink_metadata().ok().filter(Metadata::is_dir).map(|about| about.mode())
}

/// Returns true for the modes of an unfinished directory: as `mkdir` makes it, and later. Other
/// directories with the sticky bit, such as those that everybody may write to, are somebody else's.
/// Below a directory with the set-group-ID bit, `mkdir` sets it too. The type in `mode` is ignored.
#[must_use]
pub fn is_unfinished(mode: u32) -> bool {
    const AS_MADE: u32 = 0o700 | ON_ITS_WAY;
    const LATER: u32 = DIRECTORY_MODE | ON_ITS_WAY;
    matches!(mode & 0o5777, AS_MADE | LATER)
}

/// Names and targets of the symbolic links in a directory.
pub type Links = Vec<(OsString, PathBuf)>;

/// Content of an existing path, from which the caller decides whether becalm created it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Existing {
    /// A regular file of up to 64 MB, with its bytes.
    File(Vec<u8>),
    /// A directory that has only symbolic links or is empty. The links are sorted by name.
    Links(Links),
    /// Anything else, including a symbolic link, whatever its target.
    Other,
}

/// A name in an open directory.
pub(super) struct Place {
    pub(super) dir: Arc<Dir>,
    pub(super) name: OsString,
    pub(super) path: PathBuf,
}

impl Place {
    /// Returns the number from which the temporary name is made.
    fn temporary(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.name.hash(&mut hasher);
        hasher.finish()
    }

    pub(super) fn at(&self) -> At<'_> {
        self.dir.on().named(&self.name, &self.path)
    }

    pub(super) fn failed(&self, what: &'static str) -> impl Fn(Errno) -> WriteError {
        let path = self.path.clone();
        move |errno| match errno {
            Errno::EXIST => WriteError::Changed(path.clone()),
            Errno::ROFS => WriteError::refused(&path, READ_ONLY),
            errno => WriteError::failed(&path, what, errno),
        }
    }
}

impl Writer {
    /// Writes the file `path` with these bytes and this mode. An existing file is replaced if
    /// `ours` returns true. Returns false if nothing had to be written.
    ///
    /// # Errors
    /// Returns [`WriteError::NotOurs`] if another file or directory is there, or an error if the
    /// file cannot be written.
    pub fn write_new(
        &self,
        path: &Path,
        bytes: &[u8],
        mode: u32,
        ours: impl FnOnce(&Existing) -> bool,
    ) -> Result<bool, WriteError> {
        let place = self.place(path)?;
        let failed = place.failed("be written");
        let existing = self.inspect(&place)?;
        let flags = match &existing {
            // A file that appears after the inspection must not be replaced.
            None => RenameFlags::NOREPLACE,
            Some(Existing::File(old)) if old == bytes => return Ok(false),
            Some(file @ Existing::File(_)) if ours(file) => RenameFlags::empty(),
            Some(_) => return Err(WriteError::NotOurs(place.path.clone())),
        };
        let sys = &self.sys;
        // No lock protects a file that does not exist, so an existing temporary file may belong to
        // another run.
        let mut new = Temporary::create(sys, &place.dir, place.temporary(), false)?;
        sys.write(new.on(), bytes, 0).map_err(&failed)?;
        // Set after the write. Until then the mode is 0600, and other users cannot read a part of
        // the file.
        sys.set_mode(new.on(), mode).map_err(&failed)?;
        // If the rename reached the disk first, a power failure would leave an empty file at the
        // name.
        self.sync(new.on()).map_err(&failed)?;
        self.check_unchanged(&place, existing.as_ref())?;
        // Some file systems reject every flag of renameat2.
        match new.rename(&place.name, &place.path, flags) {
            Err(Errno::INVAL) if !flags.is_empty() => {
                new.rename(&place.name, &place.path, RenameFlags::empty()).map_err(&failed)?;
            }
            renamed => renamed.map_err(&failed)?,
        }
        self.sync_names(&place)?;
        Ok(true)
    }

    /// Creates the directory `path` with these links (names and targets, in any order, no name
    /// twice). An existing directory of links is replaced if `ours` returns true. Returns false if
    /// nothing had to be written.
    ///
    /// # Errors
    /// Returns [`WriteError::NotOurs`] if another file or directory is there, or an error if the
    /// directory cannot be written.
    pub fn make_links(
        &self,
        path: &Path,
        links: &[(OsString, PathBuf)],
        ours: impl FnOnce(&Existing) -> bool,
    ) -> Result<bool, WriteError> {
        let place = self.place(path)?;
        let mut wanted = links.to_vec();
        wanted.sort();
        let existing = self.inspect(&place)?;
        match &existing {
            None => {}
            Some(Existing::Links(old)) if *old == wanted => return Ok(false),
            Some(dir @ Existing::Links(_)) if ours(dir) => {}
            Some(_) => return Err(WriteError::NotOurs(place.path.clone())),
        }
        let temporary = temporary_name(place.temporary());
        let made = self.fill_links(&place, &temporary, &wanted);
        let made =
            made.and_then(|()| self.put_links(&place, &temporary, existing.as_ref(), &wanted));
        if !matches!(made, Err(WriteError::Locked { .. })) {
            // The temporary name has the replaced directory or an unfinished one.
            let _ = place.dir.remove_links_dir(&self.sys, &temporary);
        }
        made?;
        self.sync_names(&place)?;
        Ok(true)
    }

    /// Removes a file or a directory of links that `ours` recognises. Returns false if the path
    /// does not exist.
    ///
    /// # Errors
    /// Returns [`WriteError::NotOurs`] if another file or directory is there, or an error if it
    /// cannot be removed.
    pub fn remove_made(
        &self,
        path: &Path,
        ours: impl FnOnce(&Existing) -> bool,
    ) -> Result<bool, WriteError> {
        let Some(place) = self.place_if_there(path)? else { return Ok(false) };
        match self.remove_at(&place, ours) {
            // Another run has removed it meanwhile.
            Err(error) if error.is_missing() => Ok(false),
            removed => removed,
        }
    }

    fn remove_at(
        &self,
        place: &Place,
        ours: impl FnOnce(&Existing) -> bool,
    ) -> Result<bool, WriteError> {
        let failed = place.failed("be removed");
        let Some(existing) = self.inspect(place)? else { return Ok(false) };
        if !ours(&existing) {
            return Err(WriteError::NotOurs(place.path.clone()));
        }
        match self.inspect(place)? {
            None => return Ok(false),
            Some(now) if now == existing => {}
            Some(_) => return Err(WriteError::Changed(place.path.clone())),
        }
        let (sys, dir) = (&self.sys, &place.dir);
        match existing {
            Existing::File(_) => {
                sys.remove(&place.at()).map_err(failed)?;
            }
            // The rename hides the directory at once. If a later step fails, a leftover remains
            // that the next run removes.
            Existing::Links(_) => {
                let temporary = temporary_name(place.temporary());
                let (to, flags) = (dir.on().at(&temporary), RenameFlags::empty());
                sys.rename(&place.at(), &to, flags).map_err(&failed)?;
                dir.remove_links_dir(sys, &temporary).map_err(failed)?;
            }
            Existing::Other => return Err(WriteError::NotOurs(place.path.clone())),
        }
        self.sync_names(place)?;
        Ok(true)
    }

    /// Creates a directory if it does not exist, and returns true if it created it. A symbolic link to
    /// a directory is used like the directory. The parent must exist. A mode bit marks the directory until [`Self::settle_dir`] is called, so that an empty
    /// directory of a killed run can be recognised.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be created.
    pub fn make_dir(&self, path: &Path) -> Result<bool, WriteError> {
        let place = self.place(path)?;
        let sys = &self.sys;
        let failed = place.failed("be made");
        match sys.make_dir(&place.at()) {
            Ok(()) => {}
            Err(Errno::EXIST) if path.is_dir() => {
                return sys.find(path, sys::DIRECTORY).map(|_| false);
            }
            Err(errno) => return Err(failed(errno)),
        }
        // Does not follow a link: if one has replaced the new directory, its target keeps its mode.
        let made = sys.open_dir_at(&place.at()).map_err(&failed)?;
        let made = On { path, fd: &made };
        sys.set_mode(made, DIRECTORY_MODE | ON_ITS_WAY).map_err(&failed)?;
        self.sync_names(&place)?;
        Ok(true)
    }

    /// Removes the mark of [`Self::make_dir`] or [`Self::unsettle_dir`] from a directory. Returns
    /// true if it had one.
    ///
    /// # Errors
    /// Returns an error if `path` is not a directory or its mode cannot be changed.
    pub fn settle_dir(&self, path: &Path) -> Result<bool, WriteError> {
        self.change_mode(path, |mode| is_unfinished(mode).then_some(DIRECTORY_MODE))
    }

    /// Marks a directory as one to be removed together with its content, if its mode is that of
    /// created directories. Returns true if it is marked now.
    ///
    /// # Errors
    /// Returns an error if `path` is not a directory or its mode cannot be changed.
    pub fn unsettle_dir(&self, path: &Path) -> Result<bool, WriteError> {
        self.change_mode(path, |mode| (mode == DIRECTORY_MODE).then_some(mode | ON_ITS_WAY))
    }

    fn change_mode(
        &self,
        path: &Path,
        wanted: impl FnOnce(u32) -> Option<u32>,
    ) -> Result<bool, WriteError> {
        let place = self.place(path)?;
        let failed = place.failed("have its mode changed");
        let sys = &self.sys;
        let fd = sys.open_dir_at(&place.at()).map_err(&failed)?;
        let here = On { path, fd: &fd };
        let mode = sys.stat(here).map_err(&failed)?.fingerprint.mode & 0o7777;
        let Some(mode) = wanted(mode) else { return Ok(false) };
        sys.set_mode(here, mode).map_err(&failed)?;
        self.sync(here).map_err(&failed)?;
        Ok(true)
    }

    /// Removes a directory if it exists and is empty. Returns true if it was removed.
    ///
    /// # Errors
    /// Returns an error if the removal fails for any other reason.
    pub fn remove_empty_dir(&self, path: &Path) -> Result<bool, WriteError> {
        let Some(place) = self.place_if_there(path)? else { return Ok(false) };
        match self.sys.remove_dir(&place.at()) {
            Ok(()) => self.sync_names(&place).map(|()| true),
            // POSIX allows `EEXIST` too for a directory that is not empty.
            Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => Ok(false),
            Err(errno) => Err(place.failed("be removed")(errno)),
        }
    }

    pub(super) fn place(&self, path: &Path) -> Result<Place, WriteError> {
        let (dir, name) = (self.dir(&parent(path))?, name(path)?);
        Ok(Place { dir, name, path: path.to_owned() })
    }

    /// Returns the place of a path; `None` if the directory is missing. Another run may have removed
    /// it.
    fn place_if_there(&self, path: &Path) -> Result<Option<Place>, WriteError> {
        match self.place(path) {
            Err(error) if error.is_missing() => Ok(None),
            place => place.map(Some),
        }
    }

    /// Reads the content of a place.
    fn inspect(&self, place: &Place) -> Result<Option<Existing>, WriteError> {
        let failed = place.failed("be inspected");
        let facts = match self.sys.stat_at(&place.at()) {
            Err(Errno::NOENT) => return Ok(None),
            facts => facts.map_err(&failed)?,
        };
        match facts.file_type {
            FileType::RegularFile if facts.fingerprint.size <= MAX_SHOWN => self.read_file(place),
            FileType::Directory => self.read_links(place).map_err(failed),
            _ => Ok(Some(Existing::Other)),
        }
    }

    fn read_file(&self, place: &Place) -> Result<Option<Existing>, WriteError> {
        let (sys, path) = (&self.sys, &place.path);
        let failed = place.failed("be read");
        let file = sys.open_at(&place.at(), OFlags::RDONLY).map_err(&failed)?;
        let file = On { path, fd: &file };
        // The name may have been given to another file since the inspection.
        let facts = sys.stat(file).map_err(&failed)?;
        if facts.file_type != FileType::RegularFile || facts.fingerprint.size > MAX_SHOWN {
            return Ok(Some(Existing::Other));
        }
        // Another becalm may be replacing the file.
        file::lock(sys, file)?;
        let mut bytes = vec![0; facts.fingerprint.size as usize];
        sys.read_exact(file, &mut bytes, 0)
            .map_err(|error| WriteError::failed(path, "be read", error))?;
        Ok(Some(Existing::File(bytes)))
    }

    fn read_links(&self, place: &Place) -> Result<Option<Existing>, Errno> {
        let sys = &self.sys;
        let fd = sys.open_dir_at(&place.at())?;
        let inner = On { path: &place.path, fd: &fd };
        let mut links = Links::new();
        for name in sys.list(inner)? {
            let link = inner.at(&name);
            if sys.stat_at(&link)?.file_type != FileType::Symlink {
                return Ok(Some(Existing::Other));
            }
            if !is_leftover(&name) {
                let target = sys.read_link(&link)?;
                links.push((name, target));
            }
        }
        links.sort();
        Ok(Some(Existing::Links(links)))
    }

    /// Checks that a place still has the content shown to the caller.
    fn check_unchanged(&self, place: &Place, seen: Option<&Existing>) -> Result<(), WriteError> {
        if self.inspect(place)?.as_ref() == seen {
            Ok(())
        } else {
            Err(WriteError::Changed(place.path.clone()))
        }
    }

    /// Creates the directory of links under its temporary name.
    fn fill_links(
        &self,
        place: &Place,
        temporary: &OsStr,
        links: &[(OsString, PathBuf)],
    ) -> Result<(), WriteError> {
        let (sys, at) = (&self.sys, place.dir.on().at(temporary));
        let failed = place.failed("be made");
        // The directory may belong to a running process, because a name cannot be locked.
        match sys.make_dir(&at) {
            Err(Errno::EXIST) => return Err(WriteError::Locked(at.path)),
            made => made.map_err(&failed)?,
        }
        let fd = sys.open_dir_at(&at).map_err(&failed)?;
        let inner = On { path: &at.path, fd: &fd };
        for (name, target) in links {
            sys.link(&inner.at(name), target).map_err(&failed)?;
        }
        // Until here only its owner can use the directory.
        sys.set_mode(inner, DIRECTORY_MODE).map_err(&failed)?;
        self.sync(inner).map_err(&failed)
    }

    /// Renames the finished directory to its final name. An existing directory gets the temporary
    /// name.
    fn put_links(
        &self,
        place: &Place,
        temporary: &OsStr,
        existing: Option<&Existing>,
        links: &[(OsString, PathBuf)],
    ) -> Result<(), WriteError> {
        self.check_unchanged(place, existing)?;
        let from = place.dir.on().at(temporary);
        let rename = |flags| self.sys.rename(&from, &place.at(), flags);
        let put = if existing.is_some() {
            // Exchanged in one step, so that the name always leads to a complete directory.
            match rename(RenameFlags::EXCHANGE) {
                // NFS and other file systems cannot exchange two names.
                Err(Errno::INVAL | Errno::NOSYS) => self.change_links(place, links),
                put => put,
            }
        } else {
            match rename(RenameFlags::NOREPLACE) {
                // Without that flag rename can still replace only an empty directory.
                Err(Errno::INVAL | Errno::NOSYS) => rename(RenameFlags::empty()),
                put => put,
            }
        };
        put.map_err(place.failed("be made"))
    }

    /// Changes a directory of links link by link, so that each name always has its old or its new
    /// target.
    fn change_links(&self, place: &Place, links: &[(OsString, PathBuf)]) -> Result<(), Errno> {
        let sys = &self.sys;
        let fd = sys.open_dir_at(&place.at())?;
        let inner = On { path: &place.path, fd: &fd };
        let temporary = temporary_name(place.temporary());
        let temporary = inner.at(&temporary);
        for (name, target) in links {
            // A killed run may have left this name.
            let _ = sys.remove(&temporary);
            sys.link(&temporary, target)?;
            sys.rename(&temporary, &inner.at(name), RenameFlags::empty())?;
        }
        // Removed last, so that an interruption leaves no wanted link missing.
        for name in sys.list(inner)? {
            if !links.iter().any(|(wanted, _)| *wanted == name) {
                sys.remove(&inner.at(&name))?;
            }
        }
        self.sync(inner)
    }

    /// Syncs the directory after names were added or removed.
    pub(super) fn sync_names(&self, place: &Place) -> Result<(), WriteError> {
        let not_synced = |errno| WriteError::not_synced(&place.path, errno);
        self.sync(place.dir.on()).map_err(not_synced)
    }
}
