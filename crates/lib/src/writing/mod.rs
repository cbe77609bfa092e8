//! Changes many files: they are opened, edited and prepared in parallel, and committed in batches.
//! Applying and reverting a strategy differ only in the requested patch.

pub(crate) mod making;
pub(crate) mod removing;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use becalm_core::edit::Edit;
use becalm_core::fs::FileId;
use becalm_core::patch::Patch;
use becalm_host::write::{
    FileUnderEdit, HardLinks, Prepared, Reader, WriteError, WriteOptions, Writer,
};
use becalm_rewrite::RewriteError;
use bstr::BString;
use rayon::prelude::*;
use rustc_hash::FxHashSet;
use serde::Serialize;

use crate::json::lossy;
use crate::path::path_bytes;
use crate::progress::Progress;
use crate::words::{words, words_of_chain};

/// A file or directory to write, and its outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Changed {
    /// Its path.
    #[serde(serialize_with = "lossy")]
    pub path: BString,
    /// The outcome.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// True if an error came after the change, so that a power failure may undo it.
    #[serde(skip)]
    pub is_unsafe: bool,
    /// True if it is refused because another becalm is writing it.
    #[serde(skip)]
    pub is_busy: bool,
}

/// The outcome of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "status", rename_all = "kebab-case")]
pub enum Outcome {
    /// It has its new content.
    Written {
        /// Its length before, in bytes.
        old_length: u64,
        /// Its length now, in bytes.
        new_length: u64,
    },
    /// It already had the right content.
    Unchanged,
    /// Nothing was changed.
    Refused {
        /// The reason.
        reason: String,
    },
    /// The run was interrupted before it.
    NotReached,
}

impl Outcome {
    /// Returns true if the file has its new content, or would have it after a dry run.
    #[must_use]
    pub fn is_written(&self) -> bool {
        matches!(self, Self::Written { .. })
    }

    /// Returns true if a creation does not exist.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Refused { .. } | Self::NotReached)
    }

    /// Returns the outcome of a change that was refused for this reason.
    pub(crate) fn refused(reason: String) -> Self {
        Self::Refused { reason }
    }
}

impl Changed {
    /// Returns an outcome without warnings.
    pub(crate) fn of(path: BString, outcome: Outcome) -> Self {
        Self { path, outcome, warnings: Vec::new(), is_unsafe: false, is_busy: false }
    }

    /// Returns true if the file has its new content, and no error came after it.
    pub(crate) fn is_safe(&self) -> bool {
        self.outcome.is_written() && !self.is_unsafe
    }

    /// Returns true if an error of its own came before the change or after it.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        matches!(self.outcome, Outcome::Refused { .. }) || self.is_unsafe
    }

    fn refused(path: &Path, why: String) -> Self {
        Self::of(path_bytes(path), Outcome::refused(why))
    }
}

/// The change to one file, and its warnings; `None` if the file already has the right content.
pub(crate) type Proposal = (Option<Patch>, Vec<String>);

/// The time that a run waits for files that another becalm is writing.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time between two attempts with such a file.
const PAUSE: Duration = Duration::from_millis(5);

/// Changes files as the user asked.
pub(crate) struct Editor<'a> {
    pub(crate) writer: Writer,
    /// The time when this run first found a file that another becalm is writing.
    first_wait: OnceLock<Instant>,
    /// True if nothing is written: the outcome of a file has the length that it would have.
    pub(crate) dry_run: bool,
    /// Advice for the user if a file does not fit on the disk.
    pub(crate) if_full: Option<&'static str>,
    progress: &'a dyn Progress,
}

impl<'a> Editor<'a> {
    /// Makes an editor. From here on an interrupt ends the work only between two batches.
    pub(crate) fn new(options: WriteOptions, progress: &'a dyn Progress) -> Self {
        progress.begin_writing();
        let (writer, first_wait) = (Writer::new(options), OnceLock::new());
        Self { writer, first_wait, dry_run: false, if_full: None, progress }
    }

    /// Returns the reason why a file was not written.
    fn refused(&self, error: &WriteError, path: &Path) -> String {
        let reason = reason(error, path);
        match self.if_full {
            Some(advice) if is_full(error) => format!("{reason}; {advice}"),
            _ => reason,
        }
    }

    /// Repeats a step for a while, as long as another becalm is writing the same file. The caller
    /// holds no other file, so that two runs cannot wait for each other.
    pub(crate) fn wait_for<T>(&self, mut step: impl FnMut() -> T, is_busy: fn(&T) -> bool) -> T {
        loop {
            let done = step();
            let is_over = || self.first_wait.get_or_init(Instant::now).elapsed() > PATIENCE;
            if !is_busy(&done) || is_over() {
                return done;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Removes the files that interrupted runs left in folders.
    pub(crate) fn clean(&self, littered: &[PathBuf]) {
        for folder in littered {
            // A file that cannot be removed does no harm, and the next run tries again.
            let _ = self.writer.clean(folder);
        }
    }

    /// True once a signal has asked for the end.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.progress.is_interrupted()
    }

    /// Changes each file by the patch that `propose` returns for its number and content; returns
    /// the outcomes in the order of the files. A file that two paths lead to is changed once.
    pub(crate) fn change(
        &self,
        files: &[PathBuf],
        propose: impl Fn(usize, &Reader) -> Result<Proposal, RewriteError> + Sync,
    ) -> Vec<Changed> {
        let progress = self.progress.phase(files.len());
        let seen: Mutex<FxHashSet<FileId>> = Mutex::default();
        let mut all = Vec::with_capacity(files.len());
        let size = self.writer.batch_size();
        for (batch, files) in files.chunks(size).enumerate() {
            if self.is_interrupted() {
                let none = |path| Changed::of(path_bytes(path), Outcome::NotReached);
                all.extend(files.iter().map(|path| none(path)));
                continue;
            }
            let one = |(at, path): (usize, &PathBuf)| {
                let number = batch * size + at;
                let ready = self.prepare(path, &seen, |reader| propose(number, reader));
                progress(1);
                ready
            };
            let mut done = self.commit(files.par_iter().enumerate().map(one).collect());
            // The batch is written, so no file is locked any more.
            let is_busy = |ready: &Ready| ready.as_ref().is_err_and(|done| done.is_busy);
            for (at, file) in files.iter().enumerate() {
                let prepare = || self.prepare(file, &seen, |it| propose(batch * size + at, it));
                if done[at].is_busy {
                    done.splice(at..=at, self.commit(vec![self.wait_for(prepare, is_busy)]));
                }
            }
            all.extend(done);
        }
        drop(progress);
        all
    }

    fn prepare(
        &self,
        path: &Path,
        seen: &Mutex<FxHashSet<FileId>>,
        propose: impl FnOnce(&Reader) -> Result<Proposal, RewriteError>,
    ) -> Ready {
        let refused = |path: &Path, error: &WriteError| Changed {
            is_busy: is_busy(error),
            ..Changed::refused(path, self.refused(error, path))
        };
        let file = match self.dry_run {
            true => self.writer.open_to_read(path),
            false => self.writer.open(path),
        };
        let file = file.map_err(|error| refused(path, &error))?;
        let (id, seen) = (file.id(), || seen.lock().unwrap_or_else(PoisonError::into_inner));
        if !seen().insert(id) {
            return Err(Changed::of(path_bytes(path), Outcome::Unchanged));
        }
        let path = file.path.clone();
        let (patch, warnings) =
            proposal(&file, propose).map_err(|error| Changed::refused(&path, error.to_string()))?;
        let done =
            |outcome, warnings| Changed { warnings, ..Changed::of(path_bytes(&path), outcome) };
        let Some(patch) = patch else { return Err(done(Outcome::Unchanged, warnings)) };
        if self.dry_run {
            let (old_length, new_length) = (file.fingerprint().size, patch.length);
            return Err(done(Outcome::Written { old_length, new_length }, warnings));
        }
        let prepared = self.writer.prepare(file, patch).map_err(|error| {
            if is_busy(&error) {
                // Otherwise the next attempt would count as a second path of the same file.
                seen().remove(&id);
            }
            refused(&path, &error)
        })?;
        Ok((path, Box::new(prepared), warnings))
    }

    /// Commits all prepared files at once, and puts the outcomes back in order.
    fn commit(&self, ready: Vec<Ready>) -> Vec<Changed> {
        let (mut batch, mut told) = (Vec::new(), Vec::new());
        let done: Vec<Option<Changed>> = ready
            .into_iter()
            .map(|ready| match ready {
                Err(done) => Some(done),
                Ok((path, prepared, warnings)) => {
                    told.push((path, prepared.lengths, warnings));
                    batch.push(*prepared);
                    None
                }
            })
            .collect();
        let written = self.writer.commit(batch).into_iter().zip(told);
        let mut written =
            written.map(|(result, (path, (old_length, new_length), mut warnings))| {
                let mut outcome = Outcome::Written { old_length, new_length };
                let is_unsafe = result.as_ref().is_err_and(WriteError::is_changed);
                if let Err(error) = result {
                    let why = self.refused(&error, &path);
                    match is_unsafe {
                        true => warnings.push(why),
                        false => outcome = Outcome::refused(why),
                    }
                }
                Changed { warnings, is_unsafe, ..Changed::of(path_bytes(&path), outcome) }
            });
        done.into_iter().filter_map(|done| done.or_else(|| written.next())).collect()
    }
}

/// Returns the proposed change of a file, unless the file could not be read in full.
fn proposal(
    file: &FileUnderEdit,
    propose: impl FnOnce(&Reader) -> Result<Proposal, RewriteError>,
) -> Result<Proposal> {
    let proposal = propose(&file.reader);
    // An error of reading is the cause of any error that the proposal reports.
    match file.reader.error() {
        Some(error) => bail!(words(error)),
        None => Ok(proposal?),
    }
}

/// A file between opening and commit: its path, the prepared change and the editor's remarks; or its
/// outcome.
type Ready = Result<(PathBuf, Box<Prepared>, Vec<String>), Changed>;

/// True if another becalm is writing the file.
pub(crate) fn is_busy(error: &WriteError) -> bool {
    matches!(error, WriteError::Locked { .. })
}

/// Returns the patch that makes these edits, and what the editor says of them.
pub(crate) fn edit(
    reader: &Reader,
    edits: &[Edit],
    writing: WriteOptions,
) -> Result<Proposal, RewriteError> {
    // A file that keeps its inode must be recoverable at any point, so its old record stays in it.
    let edited = match writing.in_place || writing.hardlinks == HardLinks::Keep {
        true => becalm_rewrite::edit_in_place(reader, edits),
        false => becalm_rewrite::edit(reader, edits),
    }?;
    Ok((edited.patch, edited.warning.map(ToOwned::to_owned).into_iter().collect()))
}

/// Returns the patch that restores a file's old bytes; none if becalm has not changed it.
pub(crate) fn revert(reader: &Reader) -> Result<Proposal, RewriteError> {
    match becalm_rewrite::undo(reader) {
        Err(RewriteError::NothingToUndo) => Ok((None, Vec::new())),
        patch => Ok((Some(patch?), Vec::new())),
    }
}

/// True if the disk or the user's quota is full.
fn is_full(error: &WriteError) -> bool {
    anyhow::Chain::new(error)
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|it| matches!(it.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded))
}

/// Describes the reason why a file was not written, without its path.
pub(crate) fn reason(error: &WriteError, path: &Path) -> String {
    let text = words_of_chain(error);
    let rest = text.strip_prefix(&format!("{}: ", path.display())).map(ToOwned::to_owned);
    rest.unwrap_or(text)
}
