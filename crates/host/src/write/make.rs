//! Whole new files and directories of links, made beside their place and put there by one
//! rename; and their removal.
//!
//! What stands in the way, or is to be removed, is shown to the caller first ([`Existing`]):
//! only what is recognisably becalm's is ever touched.

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
use super::error::WriteError;
use super::file::{self, name, parent};
use super::reader::read_exact;
use super::sys;
use super::temporary::Temporary;

/// A file above this is not shown to the caller, and so is never becalm's.
const MAX_SHOWN: u64 = 64 * 1024 * 1024;

/// The mode of a directory that is made.
const DIRECTORY_MODE: u32 = 0o755;
/// What a directory that is on its way is known by, should the process be killed: the sticky
/// bit, which means nothing where only the owner writes.
const ON_ITS_WAY: u32 = 0o1000;

/// True for a directory that bears the mark of [`Writer::make_dir`].
#[must_use]
pub fn is_on_its_way(dir: &Path) -> bool {
    let marked = |about: Metadata| about.is_dir() && about.mode() & ON_ITS_WAY != 0;
    dir.symlink_metadata().is_ok_and(marked)
}

/// A directory of links: names and what they point to.
pub type Links = Vec<(OsString, PathBuf)>;

/// What a path names, for the caller to say whether that is becalm's.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Existing {
    /// A regular file of up to 64 MB, with its bytes.
    File(Vec<u8>),
    /// A directory of nothing but symbolic links (an empty one too), sorted by name.
    Links(Links),
    /// Anything else: a symbolic link as well, whatever it points to.
    Other,
}

/// A name in a directory.
struct Place {
    dir: Arc<Dir>,
    name: OsString,
    path: PathBuf,
}

impl Place {
    /// The name under which what goes there is made.
    fn temporary(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.name.hash(&mut hasher);
        hasher.finish()
    }

    fn failed(&self, what: &'static str) -> impl Fn(Errno) -> WriteError {
        let path = self.path.clone();
        move |errno| match errno {
            Errno::EXIST => WriteError::Changed { path: path.clone() },
            Errno::ROFS => WriteError::ReadOnlyFileSystem { path: path.clone() },
            errno => WriteError::Failed { path: path.clone(), what, source: sys::error(errno) },
        }
    }
}

impl Writer {
    /// Makes the file `path` of these bytes and this mode. What is there already is replaced
    /// where `ours` says so. Gives whether anything had to be written.
    ///
    /// # Errors
    /// [`WriteError::NotOurs`] where something else is there; where it cannot be written.
    pub fn write_new(
        &self,
        path: &Path,
        bytes: &[u8],
        mode: u32,
        ours: impl FnOnce(&Existing) -> bool,
    ) -> Result<bool, WriteError> {
        let place = self.place(path)?;
        let failed = place.failed("be written");
        let there = self.look(&place)?;
        let flags = match &there {
            None => RenameFlags::NOREPLACE,
            Some(Existing::File(old)) if old == bytes => return Ok(false),
            Some(existing @ Existing::File(_)) if ours(existing) => RenameFlags::empty(),
            Some(_) => return Err(WriteError::NotOurs { path: place.path.clone() }),
        };
        let sys = &self.sys;
        let mut new = Temporary::create(sys, &place.dir, place.temporary(), false)?;
        sys.write(&new.path, &new.fd, bytes, 0).map_err(&failed)?;
        sys.set_mode(&new.path, &new.fd, mode).map_err(&failed)?;
        if self.waits() {
            sys.sync(&new.path, &new.fd).map_err(&failed)?;
        }
        self.unchanged(&place, there.as_ref())?;
        match new.rename(&place.name, &place.path, flags) {
            Err(Errno::INVAL) if !flags.is_empty() => {
                new.rename(&place.name, &place.path, RenameFlags::empty()).map_err(&failed)?;
            }
            renamed => renamed.map_err(&failed)?,
        }
        self.sync_names(&place)?;
        Ok(true)
    }

    /// Makes the directory `path` of these links (names and targets, in any order, no name
    /// twice). A directory of links that is there already is exchanged where `ours` says so.
    /// Gives whether anything had to be written.
    ///
    /// # Errors
    /// [`WriteError::NotOurs`] where something else is there; where it cannot be written.
    pub fn make_links(
        &self,
        path: &Path,
        links: &[(OsString, PathBuf)],
        ours: impl FnOnce(&Existing) -> bool,
    ) -> Result<bool, WriteError> {
        let place = self.place(path)?;
        let mut wanted = links.to_vec();
        wanted.sort();
        let there = self.look(&place)?;
        match &there {
            None => {}
            Some(Existing::Links(old)) if *old == wanted => return Ok(false),
            Some(existing @ Existing::Links(_)) if ours(existing) => {}
            Some(_) => return Err(WriteError::NotOurs { path: place.path.clone() }),
        }
        let temporary = temporary_name(place.temporary());
        let made = self.fill_links(&place, &temporary, &wanted);
        let made = made.and_then(|()| self.put_links(&place, &temporary, there.as_ref(), &wanted));
        if !matches!(made, Err(WriteError::Locked { .. })) {
            // The directory that was exchanged, or the one that was not finished.
            let _ = place.dir.remove_links_dir(&self.sys, &temporary);
        }
        made?;
        self.sync_names(&place)?;
        Ok(true)
    }

    /// Removes a file or directory of links that `ours` recognises; gives whether there was
    /// one.
    ///
    /// # Errors
    /// [`WriteError::NotOurs`] where something else is there; where it cannot be removed.
    pub fn remove_made(
        &self,
        path: &Path,
        ours: impl FnOnce(&Existing) -> bool,
    ) -> Result<bool, WriteError> {
        let place = self.place(path)?;
        let failed = place.failed("be removed");
        let Some(existing) = self.look(&place)? else { return Ok(false) };
        if !ours(&existing) {
            return Err(WriteError::NotOurs { path: place.path.clone() });
        }
        self.unchanged(&place, Some(&existing))?;
        let (sys, dir) = (&self.sys, &place.dir);
        match existing {
            Existing::File(_) => {
                sys.remove(&place.path, &dir.fd, &place.name).map_err(failed)?;
            }
            // Out of sight at once; what then cannot be removed is a leftover.
            Existing::Links(_) => {
                let temporary = temporary_name(place.temporary());
                let to = dir.path.join(&temporary);
                let flags = RenameFlags::empty();
                sys.rename(&place.path, &dir.fd, &place.name, (&temporary, &to), flags)
                    .map_err(&failed)?;
                dir.remove_links_dir(sys, &temporary).map_err(failed)?;
            }
            Existing::Other => return Err(WriteError::NotOurs { path: place.path.clone() }),
        }
        self.sync_names(&place)?;
        Ok(true)
    }

    /// Makes a directory, unless there is one; gives whether it was made. Its parent must be
    /// there. It bears a mark until [`Self::settle_dir`] says that it holds what it is for: one
    /// that a killed run left empty is known by it.
    ///
    /// # Errors
    /// Where it cannot be made.
    pub fn make_dir(&self, path: &Path) -> Result<bool, WriteError> {
        let place = self.place(path)?;
        let (sys, dir) = (&self.sys, &place.dir);
        let failed = place.failed("be made");
        match sys.make_dir(&place.path, &dir.fd, &place.name) {
            Ok(()) => {}
            Err(Errno::EXIST) if path.is_dir() => return Ok(false),
            Err(errno) => return Err(failed(errno)),
        }
        let made = sys.open_dir_at(&place.path, &dir.fd, &place.name).map_err(&failed)?;
        let mode = DIRECTORY_MODE | ON_ITS_WAY;
        sys.set_mode(&place.path, &made, mode).map_err(&failed)?;
        self.sync_names(&place)?;
        Ok(true)
    }

    /// Takes the mark off a directory of [`Self::make_dir`] or [`Self::unsettle_dir`]; gives
    /// whether it bore one.
    ///
    /// # Errors
    /// Where it is none, or its mode cannot be changed.
    pub fn settle_dir(&self, path: &Path) -> Result<bool, WriteError> {
        self.change_mode(path, |mode| (mode & ON_ITS_WAY != 0).then_some(DIRECTORY_MODE))
    }

    /// Marks a directory as one that goes with what it holds, where its mode is that of those
    /// that are made; gives whether it does now.
    ///
    /// # Errors
    /// Where it is none, or its mode cannot be changed.
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
        let here = sys.open_dir_at(path, &place.dir.fd, &place.name).map_err(&failed)?;
        let mode = sys.stat(path, &here).map_err(&failed)?.fingerprint.mode & 0o7777;
        let Some(mode) = wanted(mode) else { return Ok(false) };
        sys.set_mode(path, &here, mode).map_err(&failed)?;
        if self.waits() {
            sys.sync(path, &here).map_err(&failed)?;
        }
        Ok(true)
    }

    /// Removes a directory if it is there and empty; gives whether it was removed.
    ///
    /// # Errors
    /// Where that fails for another reason than that it is not empty.
    pub fn remove_empty_dir(&self, path: &Path) -> Result<bool, WriteError> {
        let place = self.place(path)?;
        match self.sys.remove_dir(&place.path, &place.dir.fd, &place.name) {
            Ok(()) => self.sync_names(&place).map(|()| true),
            Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => Ok(false),
            Err(errno) => Err(place.failed("be removed")(errno)),
        }
    }

    fn place(&self, path: &Path) -> Result<Place, WriteError> {
        let (dir, name) = (self.dir(&parent(path))?, name(path)?);
        Ok(Place { dir, name, path: path.to_owned() })
    }

    /// What is in a place.
    fn look(&self, place: &Place) -> Result<Option<Existing>, WriteError> {
        let (sys, dir) = (&self.sys, &place.dir);
        let failed = place.failed("be looked at");
        let facts = match sys.stat_at(&place.path, &dir.fd, &place.name) {
            Err(Errno::NOENT) => return Ok(None),
            facts => facts.map_err(&failed)?,
        };
        match facts.file_type {
            FileType::RegularFile if facts.fingerprint.size <= MAX_SHOWN => self.look_into(place),
            FileType::Directory => self.look_at_links(place).map_err(failed),
            _ => Ok(Some(Existing::Other)),
        }
    }

    fn look_into(&self, place: &Place) -> Result<Option<Existing>, WriteError> {
        let (sys, dir, path) = (&self.sys, &place.dir, &place.path);
        let failed = place.failed("be read");
        let file = sys.open_at(path, &dir.fd, &place.name, OFlags::RDONLY).map_err(&failed)?;
        let facts = sys.stat(path, &file).map_err(&failed)?;
        if facts.file_type != FileType::RegularFile || facts.fingerprint.size > MAX_SHOWN {
            return Ok(Some(Existing::Other));
        }
        file::lock(sys, path, &file)?;
        let mut bytes = vec![0; facts.fingerprint.size as usize];
        read_exact(sys, path, &file, &mut bytes, 0).map_err(|source| WriteError::Failed {
            path: path.clone(),
            what: "be read",
            source,
        })?;
        Ok(Some(Existing::File(bytes)))
    }

    fn look_at_links(&self, place: &Place) -> Result<Option<Existing>, Errno> {
        let (sys, path) = (&self.sys, &place.path);
        let inner = sys.open_dir_at(path, &place.dir.fd, &place.name)?;
        let mut links = Links::new();
        for name in sys.list(path, &inner)? {
            let link = path.join(&name);
            if sys.stat_at(&link, &inner, &name)?.file_type != FileType::Symlink {
                return Ok(Some(Existing::Other));
            }
            if !is_leftover(&name) {
                let target = sys.read_link(&link, &inner, &name)?;
                links.push((name, target));
            }
        }
        links.sort();
        Ok(Some(Existing::Links(links)))
    }

    /// That a place still holds what was shown to the caller.
    fn unchanged(&self, place: &Place, seen: Option<&Existing>) -> Result<(), WriteError> {
        if self.look(place)?.as_ref() == seen {
            Ok(())
        } else {
            Err(WriteError::Changed { path: place.path.clone() })
        }
    }

    /// Makes the directory of links under its temporary name.
    fn fill_links(
        &self,
        place: &Place,
        temporary: &OsStr,
        links: &[(OsString, PathBuf)],
    ) -> Result<(), WriteError> {
        let (sys, dir) = (&self.sys, &place.dir);
        let path = dir.path.join(temporary);
        let failed = place.failed("be made");
        match sys.make_dir(&path, &dir.fd, temporary) {
            Err(Errno::EXIST) => return Err(WriteError::Locked { path }),
            made => made.map_err(&failed)?,
        }
        let inner = sys.open_dir_at(&path, &dir.fd, temporary).map_err(&failed)?;
        for (name, target) in links {
            sys.link(&path.join(name), &inner, name, target).map_err(&failed)?;
        }
        sys.set_mode(&path, &inner, DIRECTORY_MODE).map_err(&failed)?;
        if self.waits() {
            sys.sync(&path, &inner).map_err(&failed)?;
        }
        Ok(())
    }

    /// Gives the finished directory its place; one that was there has the temporary name
    /// afterwards.
    fn put_links(
        &self,
        place: &Place,
        temporary: &OsStr,
        there: Option<&Existing>,
        links: &[(OsString, PathBuf)],
    ) -> Result<(), WriteError> {
        self.unchanged(place, there)?;
        let (sys, dir) = (&self.sys, &place.dir);
        let from = dir.path.join(temporary);
        let rename =
            |flags| sys.rename(&from, &dir.fd, temporary, (&place.name, &place.path), flags);
        let put = if there.is_some() {
            match rename(RenameFlags::EXCHANGE) {
                // NFS and others cannot exchange.
                Err(Errno::INVAL | Errno::NOSYS) => self.change_links(place, links),
                put => put,
            }
        } else {
            match rename(RenameFlags::NOREPLACE) {
                // Without that flag a directory still replaces nothing but an empty one.
                Err(Errno::INVAL | Errno::NOSYS) => rename(RenameFlags::empty()),
                put => put,
            }
        };
        put.map_err(place.failed("be made"))
    }

    /// Makes a directory of links what it is to be, link by link, so that at any moment each
    /// name has its old or its new target.
    fn change_links(&self, place: &Place, links: &[(OsString, PathBuf)]) -> Result<(), Errno> {
        let (sys, path) = (&self.sys, &place.path);
        let inner = sys.open_dir_at(path, &place.dir.fd, &place.name)?;
        let temporary = temporary_name(place.temporary());
        let temporary_path = path.join(&temporary);
        for (name, target) in links {
            let _ = sys.remove(&temporary_path, &inner, &temporary);
            sys.link(&temporary_path, &inner, &temporary, target)?;
            let to = (name.as_os_str(), path.join(name));
            let flags = RenameFlags::empty();
            sys.rename(&temporary_path, &inner, &temporary, (to.0, &to.1), flags)?;
        }
        for name in sys.list(path, &inner)? {
            if !links.iter().any(|(wanted, _)| *wanted == name) {
                sys.remove(&path.join(&name), &inner, &name)?;
            }
        }
        if self.waits() { sys.sync(path, &inner) } else { Ok(()) }
    }

    /// Brings names that were given or taken away to the disk.
    fn sync_names(&self, place: &Place) -> Result<(), WriteError> {
        if !self.waits() {
            return Ok(());
        }
        self.sys.sync(&place.dir.path, &place.dir.fd).map_err(|errno| WriteError::NotSynced {
            path: place.path.clone(),
            source: sys::error(errno),
        })
    }
}
