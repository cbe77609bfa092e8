//! Writes files so that a failure never damages them.
//!
//! `becalm-rewrite` computes a [`Patch`]; this module applies it. If anything fails at any time,
//! each file has its old content or its new content. One file is written in three steps:
//!
//! 1. [`Writer::open`] finds the file of a path, locks it and records its state. The editor reads
//!    the file through [`Reader`].
//! 2. [`Writer::prepare`] writes the new content to a temporary file (`atomic.rs`) or beyond the
//!    end of the file (`in_place.rs`).
//! 3. [`Writer::commit`] makes it the file's content, for many files at once (`batch.rs`).
//!
//! `make.rs` creates and removes whole files and directories of links in the same way. All system
//! calls go through `sys.rs`, in which a test can make any of them fail. Directories and files are
//! opened by the rules of [`crate::trust`].
//!
//! Not preserved: inode flags other than those that forbid writing (`chattr`), the time of birth
//! and fs-verity. Attributes in the `trusted` namespace are visible to the administrator only, so
//! only the administrator's runs preserve them.

mod atomic;
mod batch;
mod blocks;
mod dir;
mod error;
mod file;
mod in_place;
mod make;
mod metadata;
mod options;
mod replace;
mod sys;
mod temporary;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use becalm_core::fs::FileId;
use becalm_core::patch::Patch;
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::fs::StatxAttributes;
use rustix::io::Errno;

use self::atomic::Atomic;
use self::batch::Work;
use self::dir::Dir;
use self::in_place::{InPlace, removes_rights};
use self::sys::{On, Sys};
use self::temporary::protected;

pub use self::batch::Prepared;
pub(crate) use self::dir::is_leftover;
pub use self::error::WriteError;
pub use self::file::FileUnderEdit;
pub use self::make::{Existing, Links, has_mode_of_made, is_on_its_way, is_unfinished};
pub use self::options::{HardLinks, WriteOptions};
pub use crate::fingerprint::Fingerprint;
pub use crate::reader::Reader;
use crate::trust::Rule;

/// Maximum number of files in a batch, whatever the limit of open files.
const MAX_BATCH: u64 = 1024;
/// Descriptors that a file needs: the old file, the new one, the directory, and one for short use.
const DESCRIPTORS: u64 = 4;
/// Descriptors reserved for the rest of the process.
const SPARE: u64 = 64;

/// Writes files and caches facts about their directories. A run has one, which its threads share.
pub struct Writer {
    options: WriteOptions,
    sys: Sys,
    /// The open directories, by path.
    dirs: Mutex<FxHashMap<PathBuf, Weak<Dir>>>,
    /// The directories in which leftovers of killed runs were already removed.
    cleaned: Mutex<FxHashSet<FileId>>,
}

impl Writer {
    /// Creates a writer with these options.
    #[must_use]
    pub fn new(options: WriteOptions) -> Self {
        Self::on(options, Sys::default())
    }

    /// Creates a writer for files at places of this kind; [`Self::new`] is for named ones.
    #[must_use]
    #[allow(clippy::needless_update, reason = "tests have another field")]
    pub fn under(rule: Rule, options: WriteOptions) -> Self {
        Self::on(options, Sys { rule, ..Sys::default() })
    }

    fn on(options: WriteOptions, sys: Sys) -> Self {
        Self { options, sys, dirs: Mutex::default(), cleaned: Mutex::default() }
    }

    /// Returns the number of prepared files to commit at once. Each file needs up to four
    /// descriptors, so the limit of open files bounds it. Larger batches wait for the disk less
    /// often, so this first raises the process's limit as far as allowed.
    #[must_use]
    pub fn batch_size(&self) -> usize {
        let limit = raised_limit(MAX_BATCH * DESCRIPTORS + SPARE);
        let files = limit.saturating_sub(SPARE) / DESCRIPTORS;
        usize::try_from(files.clamp(1, MAX_BATCH)).unwrap_or(1)
    }

    /// Finds the file of `path`, locks it and records its state. Changes nothing.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, is not a regular file, or is locked by another
    /// becalm.
    pub fn open(&self, path: &Path) -> Result<FileUnderEdit, WriteError> {
        FileUnderEdit::open(&self.sys, path, true)
    }

    /// Does the same as [`Self::open`] without the lock, to read a file that another becalm may
    /// have locked. The result must not be prepared.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or is not a regular file.
    pub fn open_to_read(&self, path: &Path) -> Result<FileUnderEdit, WriteError> {
        FileUnderEdit::open(&self.sys, path, false)
    }

    /// Writes the new content beside a file of [`Self::open`], or beyond its end if it is written in
    /// place. The file's content up to its old length does not change. Dropping the result undoes the
    /// preparation.
    ///
    /// # Errors
    /// Returns an error if the options do not allow this kind of file, if the file has changed
    /// since it was opened, or if its metadata cannot be preserved.
    pub fn prepare(&self, mut file: FileUnderEdit, patch: Patch) -> Result<Prepared, WriteError> {
        let in_place = self.is_in_place(&file)?;
        // The editor has read the file; its cached bytes would be most of the memory of a large
        // batch.
        file.reader.forget();
        if !is_valid(&patch) {
            let why = "the patch has ranges that overlap or exceed the file";
            return Err(WriteError::refused(&file.path, why));
        }
        let lengths = (file.fingerprint().size, patch.length);
        let work = if in_place {
            Work::InPlace(Box::new(InPlace::prepare(&self.sys, file, patch, &self.options)?))
        } else {
            let dir = self.dir(&file::parent(&file.path))?;
            Work::Atomic(Box::new(Atomic::prepare(&self.sys, &dir, file, &patch, &self.options)?))
        };
        Ok(Prepared { work, lengths })
    }

    /// Makes the prepared contents those of their files, and returns the result of each in the same
    /// order. If a file fails, the others are still written.
    #[must_use]
    pub fn commit(&self, batch: Vec<Prepared>) -> Vec<Result<(), WriteError>> {
        batch::commit(&self.sys, !self.options.no_sync, batch)
    }

    /// Writes one file: [`Self::prepare`], then [`Self::commit`].
    ///
    /// # Errors
    /// Returns the errors of both.
    pub fn apply(&self, file: FileUnderEdit, patch: Patch) -> Result<(), WriteError> {
        let path = file.path.clone();
        let prepared = self.prepare(file, patch)?;
        self.commit(vec![prepared]).pop().unwrap_or(Err(WriteError::Changed(path)))
    }

    /// Removes leftovers of killed runs from a directory, unless another becalm is using it.
    /// Returns the number of removed files and directories. [`Self::prepare`] does this for its
    /// directory. Call this for directories in which no file will be written.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be opened.
    pub fn clean(&self, dir: &Path) -> Result<usize, WriteError> {
        Dir::open(&self.sys, dir, |_| true).map(|dir| dir.removed)
    }

    /// Returns the reason if the options forbid to write a file.
    #[must_use]
    pub fn refusal(&self, path: &Path) -> Option<String> {
        match self.is_in_place(&self.open_to_read(path).ok()?) {
            Err(WriteError::Refused { why, .. }) => Some(why.into()),
            _ => None,
        }
    }

    /// Syncs a file or directory, if the options want that.
    fn sync(&self, on: On<'_>) -> Result<(), Errno> {
        if self.options.no_sync { Ok(()) } else { self.sys.sync(on) }
    }

    /// Returns true if the file must be written in place, or an error if the options forbid to
    /// write it.
    fn is_in_place(&self, file: &FileUnderEdit) -> Result<bool, WriteError> {
        let (options, facts, path) = (&self.options, &file.facts, &file.path);
        // The kernel refuses changes of immutable and append-only files, even by root. A file that
        // replaces another would lose its fs-verity seal.
        let flags = [
            (StatxAttributes::IMMUTABLE, "immutable"),
            (StatxAttributes::APPEND, "append-only"),
            (StatxAttributes::VERITY, "sealed by fs-verity"),
        ];
        if let Some((_, flag)) = flags.iter().find(|(flag, _)| facts.attributes.contains(*flag)) {
            return Err(protected(path, flag));
        }
        if facts.fingerprint.set_id() && !options.setuid {
            return Err(WriteError::refused(path, "is set-uid or set-gid; needs --setuid"));
        }
        let links = facts.fingerprint.links;
        let in_place = match options.hardlinks {
            _ if links <= 1 => options.in_place,
            HardLinks::Refuse => {
                let why = "hard links; choose with --hardlinks to break or to keep them";
                return Err(WriteError::refused(path, format!("has {links} {why}")));
            }
            HardLinks::Break => false,
            HardLinks::Keep => true,
        };
        if in_place && facts.fingerprint.set_id() {
            return Err(removes_rights(path, "set-id bit"));
        }
        Ok(in_place)
    }

    /// Opens a directory once for all files that are written in it at the same time, and cleans it once a run.
    fn dir(&self, path: &Path) -> Result<Arc<Dir>, WriteError> {
        // Other threads wait: their lock would keep the directory from being cleaned.
        let mut dirs = self.dirs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(dir) = dirs.get(path).and_then(Weak::upgrade) {
            return Ok(dir);
        }
        let mut cleaned = self.cleaned.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = Arc::new(Dir::open(&self.sys, path, |id| cleaned.insert(id))?);
        dirs.insert(path.to_owned(), Arc::downgrade(&dir));
        Ok(dir)
    }
}

/// Raises the limit of open files to `wanted` as far as allowed, and returns the new limit.
pub fn raised_limit(wanted: u64) -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let now = getrlimit(Resource::Nofile);
    let current = now.current.unwrap_or(u64::MAX);
    // A process may raise its soft limit up to the hard one (getrlimit(2)).
    let possible = now.maximum.unwrap_or(u64::MAX).min(wanted);
    let raised = Rlimit { current: Some(possible), maximum: now.maximum };
    if current < possible && setrlimit(Resource::Nofile, raised).is_ok() {
        return possible;
    }
    current
}

/// Returns true if the ranges are in order, do not overlap, and end within the length, which must
/// be a valid file length.
fn is_valid(patch: &Patch) -> bool {
    let mut end = 0;
    let apart = patch.writes.iter().all(|write| {
        let begins_after = write.offset >= end;
        let next = write.offset.checked_add(write.bytes.len() as u64);
        end = next.unwrap_or(u64::MAX);
        begins_after && next.is_some_and(|next| next <= patch.length)
    });
    apart && i64::try_from(patch.length).is_ok()
}
