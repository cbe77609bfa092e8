//! Writing files without harming them.
//!
//! `becalm-rewrite` says what is to stand where ([`Patch`]); this module makes it so, and at
//! any moment, whatever fails, each file is the old one or the new one. The way of one file:
//!
//! 1. [`Writer::open`] finds the file behind a path, locks it and remembers its state. The
//!    editor reads it through [`Reader`].
//! 2. [`Writer::prepare`] writes the new content beside the file (`atomic.rs`) or beyond its
//!    end (`in_place.rs`).
//! 3. [`Writer::commit`] makes it the file's content, for many files at once (`batch.rs`).
//!
//! `make.rs` makes and removes whole files and directories of links with the same care. All
//! calls of the system go through `sys.rs`, where a test can let any of them fail.
//!
//! Not done: inode flags other than those that forbid writing (`chattr`), the time of birth
//! and fs-verity seals are those of a new file; the `trusted.*` attributes are seen, and so
//! kept, by the administrator only.

mod atomic;
mod batch;
mod copy;
mod dir;
mod error;
mod file;
mod fingerprint;
mod in_place;
mod make;
mod metadata;
mod options;
mod reader;
mod release;
mod sys;
mod temporary;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use becalm_core::fs::FileId;
use becalm_core::patch::Patch;
use rustc_hash::{FxHashMap, FxHashSet};

use self::atomic::Atomic;
use self::batch::Work;
use self::dir::Dir;
use self::in_place::InPlace;
use self::release::Release;
use self::sys::Sys;

pub use self::batch::{Prepared, Written};
pub use self::dir::is_leftover;
pub use self::error::WriteError;
pub use self::file::FileUnderEdit;
pub use self::fingerprint::Fingerprint;
pub use self::make::{Existing, Links, is_on_its_way};
pub use self::options::{Durability, HardLinks, WriteOptions};
pub use self::reader::Reader;
pub use self::sys::{Call, Faults, Verdict};

/// Files that one batch holds at the most, whatever the limit of open files.
const MAX_BATCH: u64 = 1024;
/// Descriptors that a file takes: the old file, the new one, the directory, one that is open
/// for a moment, and the old file of the batch before, which may still be being closed.
const DESCRIPTORS: u64 = 5;
/// Descriptors left to the rest of the process.
const SPARE: u64 = 64;

/// Writes files, and keeps what it learns of their directories on the way. One for a run,
/// shared by its threads.
pub struct Writer {
    options: WriteOptions,
    sys: Sys,
    /// The directories in use, by path.
    dirs: Mutex<FxHashMap<PathBuf, Weak<Dir>>>,
    /// The directories that were looked through for what killed runs had left.
    cleaned: Mutex<FxHashSet<FileId>>,
    release: Release,
}

impl Writer {
    /// A writer that does as `options` say.
    #[must_use]
    pub fn new(options: WriteOptions) -> Self {
        Self::on(options, Sys::default())
    }

    /// A writer before each of whose calls `faults` is asked: for tests.
    #[must_use]
    pub fn with_faults(options: WriteOptions, faults: Arc<dyn Faults>) -> Self {
        Self::on(options, Sys::with(faults))
    }

    fn on(options: WriteOptions, sys: Sys) -> Self {
        let (dirs, cleaned) = (Mutex::default(), Mutex::default());
        Self { options, sys, dirs, cleaned, release: Release::default() }
    }

    /// How many prepared files to commit at once: as many as the limit of open files leaves
    /// room for, since each takes up to five descriptors. Larger batches wait for the disk
    /// less often; so the process' limit is raised first, as far as it may be.
    #[must_use]
    pub fn batch_size(&self) -> usize {
        let limit = raised_limit(MAX_BATCH * DESCRIPTORS + SPARE);
        let mount_namespace = limit.saturating_sub(SPARE) / DESCRIPTORS;
        usize::try_from(mount_namespace.clamp(1, MAX_BATCH)).unwrap_or(1)
    }

    /// Finds the file behind `path`, locks it and remembers its state. Nothing is changed.
    ///
    /// # Errors
    /// Where it cannot be read, is no regular file, or another becalm is at work on it.
    pub fn open(&self, path: &Path) -> Result<FileUnderEdit, WriteError> {
        FileUnderEdit::open(&self.sys, path, true)
    }

    /// As [`Self::open`], without the lock: for looking alone, beside whoever is at work.
    ///
    /// # Errors
    /// Where it cannot be read or is no regular file.
    pub fn open_to_read(&self, path: &Path) -> Result<FileUnderEdit, WriteError> {
        FileUnderEdit::open(&self.sys, path, false)
    }

    /// Writes the new content, so that [`Self::commit`] has little left to do. The file stays
    /// as it was, but that one written in place has grown; dropping what is returned takes
    /// everything back.
    ///
    /// # Errors
    /// Where the file is of a kind that the options do not allow, has changed since it was
    /// opened, or cannot be written with everything it has.
    pub fn prepare(&self, file: FileUnderEdit, patch: Patch) -> Result<Prepared, WriteError> {
        let in_place = self.way(&file)?;
        let mut file = file.locked(&self.sys)?;
        file.reader.forget();
        if !fits(&patch) {
            return Err(WriteError::BadPatch { path: file.path });
        }
        if in_place {
            let prepared = InPlace::prepare(&self.sys, file, patch, &self.options)?;
            return Ok(Prepared(Work::InPlace(Box::new(prepared))));
        }
        let dir = self.dir(&file.parent())?;
        let prepared = Atomic::prepare(&self.sys, &dir, file, &patch, &self.options)?;
        Ok(Prepared(Work::Atomic(Box::new(prepared))))
    }

    /// Makes the prepared contents those of their files; gives the outcome of each, in the
    /// order given. A file that fails does not keep the others from being written.
    #[must_use]
    pub fn commit(&self, batch: Vec<Prepared>) -> Vec<Result<Written, WriteError>> {
        let written = batch::commit(&self.sys, &self.release, self.waits(), batch);
        self.dirs().retain(|_, dir| dir.strong_count() > 0);
        written
    }

    /// Writes one file: [`Self::prepare`] and [`Self::commit`].
    ///
    /// # Errors
    /// As both.
    pub fn apply(&self, file: FileUnderEdit, patch: Patch) -> Result<Written, WriteError> {
        let path = file.path.clone();
        let prepared = self.prepare(file, patch)?;
        self.commit(vec![prepared]).pop().unwrap_or(Err(WriteError::Changed { path }))
    }

    /// Removes what killed runs left in a directory, unless another becalm is at work there;
    /// gives how many things that was. Preparing a file cleans its directory anyway; this is
    /// for directories in which nothing is left to do.
    ///
    /// # Errors
    /// Where the directory cannot be opened.
    pub fn clean(&self, dir: &Path) -> Result<usize, WriteError> {
        Dir::open(&self.sys, dir, |_| true).map(|dir| dir.removed)
    }

    fn waits(&self) -> bool {
        self.options.durability == Durability::Synced
    }

    /// Whether the file is to be written in place; or that it is not to be written at all.
    fn way(&self, file: &FileUnderEdit) -> Result<bool, WriteError> {
        let (options, facts, path) = (&self.options, &file.facts, || file.path.clone());
        let marks = [
            (facts.immutable, "immutable"),
            (facts.append_only, "append-only"),
            (facts.verity, "sealed by fs-verity"),
        ];
        if let Some((_, mark)) = marks.iter().find(|(is, _)| *is) {
            return Err(WriteError::Marked { path: path(), mark });
        }
        if facts.fingerprint.set_id() && !options.set_id {
            return Err(WriteError::SetId { path: path() });
        }
        let links = facts.fingerprint.links;
        let in_place = match options.hard_links {
            _ if links <= 1 => options.in_place,
            HardLinks::Refuse => return Err(WriteError::HardLinked { path: path(), links }),
            HardLinks::Break => false,
            HardLinks::Keep => true,
        };
        if in_place && facts.fingerprint.set_id() {
            return Err(WriteError::RightsInPlace { path: path(), what: "set-id bit" });
        }
        Ok(in_place)
    }

    fn dirs(&self) -> std::sync::MutexGuard<'_, FxHashMap<PathBuf, Weak<Dir>>> {
        self.dirs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The directory, opened once for all that is written in it at the same time, and cleaned
    /// once a run.
    fn dir(&self, path: &Path) -> Result<Arc<Dir>, WriteError> {
        let mut dirs = self.dirs();
        if let Some(dir) = dirs.get(path).and_then(Weak::upgrade) {
            return Ok(dir);
        }
        let clean = |id| self.cleaned.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
        let dir = Arc::new(Dir::open(&self.sys, path, clean)?);
        dirs.insert(path.to_owned(), Arc::downgrade(&dir));
        Ok(dir)
    }
}

/// The limit of open files, raised to `wanted` where it is lower and may be raised.
fn raised_limit(wanted: u64) -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let now = getrlimit(Resource::Nofile);
    let current = now.current.unwrap_or(u64::MAX);
    let possible = now.maximum.unwrap_or(u64::MAX).min(wanted);
    let raised = Rlimit { current: Some(possible), maximum: now.maximum };
    if current < possible && setrlimit(Resource::Nofile, raised).is_ok() {
        return possible;
    }
    current
}

/// Whether the ranges are in order, apart, and inside the length, which a file can have.
fn fits(patch: &Patch) -> bool {
    let mut end = 0;
    let apart = patch.writes.iter().all(|write| {
        let begins_after = write.offset >= end;
        let next = write.offset.checked_add(write.bytes.len() as u64);
        end = next.unwrap_or(u64::MAX);
        begins_after && next.is_some_and(|next| next <= patch.length)
    });
    apart && i64::try_from(patch.length).is_ok()
}
