//! The indexes of single programs, which `becalm run` keeps in the cache directory.
//!
//! The name of an index is a hash of the program (path, inode, times), the directories of
//! `LD_LIBRARY_PATH`, `LD_PRELOAD` and the store prefixes. The index has the objects of the start and, for
//! a Python, those of the trees from which it loads extension modules; if packages were installed since it
//! was made, it is compared with the files again. `becalm index` indexes whole stores. Beside an
//! index there may be files of the same name: `.lock`, which is locked while the index is made;
//! `.failed`, with the reason why none can be made; `.wanted`, with the request that the next
//! `becalm index` carries out; and NAME.quick, with what a start of the command needs. The cache keeps the most recently used indexes, up to a number of
//! bytes. A process whose index is removed keeps its mapping.

use std::env;
use std::fs::{FileTimes, Metadata};
use std::hash::{Hash, Hasher};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, anyhow};
use becalm_host::index_store::{last_installed, trees_beside};
use rustc_hash::FxHasher;

use crate::assume::StorePrefixes;
use crate::index::file::{self, Opened};
use crate::index::places::{self, cache_writer as writer};
use crate::index::platforms;
use crate::index::trust::{self, Untrusted};
use crate::index::variables::environment_of_process;
use crate::path::dirs_of;
use crate::run::Options;
use crate::run::program::Program;

/// Bytes of kept indexes. An index has some hundred kilobytes to some megabytes.
const KEPT: u64 = 256 << 20;
/// After this time an index is compared with the files again, and a failed one is tried again.
pub(crate) const FRESH: Duration = Duration::from_secs(3600);
/// Part of the name: an index of another format is another file.
const FORMAT: u32 = 11;
/// The ending of the name of a decision ([`crate::quick`]).
pub(crate) const QUICK: &str = "quick";

/// The path of a program's index.
#[derive(Clone, Debug)]
pub struct Place {
    /// The path.
    pub path: PathBuf,
    /// The time when packages were last installed in a tree of the program.
    installed: Option<SystemTime>,
}

impl Place {
    /// Returns the place for a program that is started in this environment, with the paths of another index if there is
    /// one.
    ///
    /// # Errors
    /// Returns an error if the environment has no home directory.
    pub fn of(options: &Options, program: &Program, paths: Option<&Opened>) -> Result<Self> {
        let folder = places::cache().context("no home directory for the cache of indexes")?;
        let mut hasher = FxHasher::default();
        environment(&options.store).hash(&mut hasher);
        program.real.hash(&mut hasher);
        if let Some(Opened { path, modified, .. }) = paths {
            (path, modified).hash(&mut hasher);
        }
        if options.told.is_some() {
            options.told.hash(&mut hasher);
        }
        let facts = &program.facts;
        let times = (facts.mtime(), facts.mtime_nsec(), facts.ctime(), facts.ctime_nsec());
        let volume = becalm_host::volume_number(&program.real, facts);
        (volume, facts.ino(), times).hash(&mut hasher);
        let trees = trees_beside(&program.path, &program.real);
        trees.hash(&mut hasher);
        let installed = last_installed(&trees);
        let path = folder.join(places::cached_name(&program.real, hasher.finish(), "so"));
        Ok(Self { path, installed })
    }

    fn beside(&self, what: &str) -> PathBuf {
        self.path.with_extension(format!("so.{what}"))
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    /// Returns the index, and true if it should be compared with the files again; `None` if there is none yet.
    ///
    /// # Errors
    /// Returns an error if an index there is not trusted, or none can be made.
    pub fn look(&self) -> Result<Option<(Opened, bool)>> {
        match file::open_if_there(&self.path) {
            Ok(Some(index)) => {
                let is_before = |made: SystemTime| self.installed.is_some_and(|it| it > made);
                let is_stale = index.modified.is_none_or(|made| is_old(made) || is_before(made));
                Ok(Some((index, is_stale)))
            }
            Ok(None) => self.failure().map_or(Ok(None), |why| Err(anyhow!(why))),
            Err(error) if error.is::<Untrusted>() => Err(error),
            // A damaged index is made again.
            Err(_) => Ok(None),
        }
    }

    /// Returns the reason why no index can be made, if it was recorded recently. An empty record has
    /// none: the file system was full.
    fn failure(&self) -> Option<String> {
        let mut found = trust::open(&self.beside("failed")).ok()?;
        let is_recent = found.facts.modified().is_ok_and(|time| !is_old(time));
        let mut why = String::new();
        found.file.read_to_string(&mut why).ok()?;
        (is_recent && !why.is_empty()).then_some(why)
    }

    /// Takes the lock for making the index; `None` if another process has it.
    ///
    /// # Errors
    /// Returns an error if the cache cannot be written.
    pub fn lock(&self) -> Result<Option<OwnedFd>> {
        trust::make_dirs(self.folder())?;
        Ok(writer().lock(&self.beside("lock"))?)
    }

    /// Records that the index was compared with the files and used now.
    pub fn touch(&self) {
        let times = FileTimes::new().set_modified(SystemTime::now());
        // If this fails, the index is only removed sooner.
        let _ = trust::open(&self.path).map(|index| index.file.set_times(times));
    }

    /// Records the reason why no index can be made, or removes the record.
    pub fn set_failure(&self, why: Option<&str>) {
        let path = self.beside("failed");
        let _ = match why {
            Some(why) => writer().replace(&path, why.as_bytes(), 0o644),
            None => writer().remove(&path),
        };
    }

    /// Writes a request for the next `becalm index`.
    ///
    /// # Errors
    /// Returns an error if the cache cannot be written.
    pub fn want(&self, request: &[u8]) -> Result<()> {
        Ok(writer().replace(&self.beside("wanted"), request, 0o644)?)
    }

    /// Removes the lock's name and the request. Only the holder of the lock may call this.
    pub fn finish(&self) {
        for what in ["wanted", "lock"] {
            let _ = writer().remove(&self.beside(what));
        }
        make_room(self.folder());
    }

    /// Returns the places with a request of [`Self::want`], with the request.
    pub fn wanted() -> Vec<(Self, Vec<u8>)> {
        let folder = places::cache();
        let wanted = folder.iter().flat_map(|folder| places::files_ending(folder, "wanted"));
        let place = |path: PathBuf| {
            let place = Self { path: path.with_extension(""), installed: None };
            Some((place, file::trusted_bytes(&path).ok()?))
        };
        wanted.filter_map(place).collect()
    }
}

/// Returns a hash of the environment that an index is for, and of becalm's version.
pub(crate) fn environment(store: &StorePrefixes) -> u64 {
    let mut hasher = FxHasher::default();
    (env!("CARGO_PKG_VERSION"), FORMAT).hash(&mut hasher);
    store.list().hash(&mut hasher);
    dirs_of(env::var_os("LD_LIBRARY_PATH")).hash(&mut hasher);
    environment_of_process().preload.hash(&mut hasher);
    hasher.finish()
}

/// True for a time in the future too, which the clock may not reach for years.
fn is_old(time: SystemTime) -> bool {
    time.elapsed().map_or(true, |age| age > FRESH)
}

/// Removes records of failures that are no longer used, and the least recently used indexes until at
/// most [`KEPT`] bytes are left; the newest one is kept in any case. A file that cannot be removed is
/// tried again next time.
fn make_room(folder: &Path) {
    let writer = writer();
    let is_unused = |path: &PathBuf| {
        path.symlink_metadata().and_then(|facts| facts.modified()).is_ok_and(is_old)
    };
    let records = ["failed", QUICK].into_iter().flat_map(|it| places::files_ending(folder, it));
    records.filter(is_unused).for_each(|path| drop(writer.remove(&path)));
    places::keep_newest(places::files_ending(folder, "so"), Metadata::len, KEPT, |path| {
        let _ = writer.remove(path);
        let _ = writer.remove_with_files(&platforms::dir_of(path));
    });
}
