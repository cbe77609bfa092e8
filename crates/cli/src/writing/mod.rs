//! Changing many files: opened, edited and made ready in parallel, committed in batches, with
//! a bar. `becalm fix` and `becalm undo` differ only in the patch they ask for.

pub(crate) mod making;
pub(crate) mod removing;
pub(crate) mod text;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use becalm_core::fs::FileId;
use becalm_core::patch::Patch;
use becalm_host::write::{
    Durability, FileUnderEdit, HardLinks, Prepared, Reader, WriteError, WriteOptions, Writer,
};
use becalm_lib::words::{words, words_of_chain};
use rayon::prelude::*;
use rustc_hash::FxHashSet;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::common_args::writing::{HardlinksArg, WritingArgs};
use crate::terminal::progress::Progress;

/// What became of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It has its new content; lengths in bytes.
    Written {
        /// Before.
        old_length: u64,
        /// Now.
        new_length: u64,
    },
    /// It was already as it is to be.
    Unchanged,
    /// Nothing was changed, and why.
    Refused(String),
    /// The run was interrupted before it.
    NotReached,
}

/// One file's outcome, and what else its user should know.
#[derive(Clone, Debug)]
pub(crate) struct Done {
    /// What became of it.
    pub outcome: Outcome,
    /// Remarks of the editor.
    pub warnings: Vec<String>,
}

/// What is to be written to one file; `None` where it is as it should be.
pub(crate) type Proposal = (Option<Patch>, Vec<String>);

/// Changes files as the user asked.
pub(crate) struct Editor {
    writer: Writer,
    /// What to try if there is no room for a new file.
    if_full: Option<&'static str>,
    interrupted: Arc<AtomicBool>,
}

impl Editor {
    /// Ready to write. From here on a signal that ends the process does so only between two
    /// batches.
    ///
    /// # Errors
    /// Where the signals cannot be watched.
    pub(crate) fn new(args: &WritingArgs) -> Result<Self> {
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
        }
        Ok(Self { writer: Writer::new(options(args)), if_full: None, interrupted })
    }

    /// The same editor, which adds `advice` to what it says of a file for which the disk has no
    /// room.
    pub(crate) fn with_advice_if_full(self, advice: Option<&'static str>) -> Self {
        Self { if_full: advice, ..self }
    }

    /// Why a file was not written.
    fn refused(&self, error: &WriteError, path: &Path) -> String {
        let reason = reason(error, path);
        match self.if_full {
            Some(advice) if is_full(error) => format!("{reason}; {advice}"),
            _ => reason,
        }
    }

    /// The writer, for what is made anew.
    pub(crate) fn writer(&self) -> &Writer {
        &self.writer
    }

    /// Removes what killed runs left in folders.
    pub(crate) fn clean(&self, littered: &[PathBuf]) {
        for folder in littered {
            // What cannot be removed harms nobody, and the next run tries again.
            let _ = self.writer.clean(folder);
        }
    }

    /// True once a signal asked for the end.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Changes each file by the patch that `propose` gives for its number and content; gives
    /// the outcomes in the order of the files. A file that two paths lead to is changed once.
    pub(crate) fn change(
        &self,
        files: &[PathBuf],
        propose: impl Fn(usize, &Reader) -> Result<Proposal, String> + Sync,
    ) -> Vec<Done> {
        let progress = Progress::new(files.len());
        let seen: Mutex<FxHashSet<FileId>> = Mutex::default();
        let mut all = Vec::with_capacity(files.len());
        let size = self.writer.batch_size();
        for (batch, files) in files.chunks(size).enumerate() {
            if self.is_interrupted() {
                let none = Done { outcome: Outcome::NotReached, warnings: Vec::new() };
                all.extend(vec![none; files.len()]);
                continue;
            }
            let one = |(at, path): (usize, &PathBuf)| {
                let number = batch * size + at;
                let ready = self.prepare(path, &seen, |reader| propose(number, reader));
                progress.tick();
                ready
            };
            let ready: Vec<Ready> = files.par_iter().enumerate().map(one).collect();
            all.extend(self.commit(ready));
        }
        progress.finish();
        all
    }

    /// As [`Self::change`], and nothing is written: the length that a file would have is told.
    pub(crate) fn rehearse(
        &self,
        files: &[PathBuf],
        propose: impl Fn(usize, &Reader) -> Result<Proposal, String> + Sync,
    ) -> Vec<Done> {
        let one = |(number, path): (usize, &PathBuf)| {
            let file = match self.writer.open_to_read(path) {
                Ok(file) => file,
                Err(error) => return Done::refused(reason(&error, path)),
            };
            match proposal(&file, |reader| propose(number, reader)) {
                Err(why) => Done::refused(why),
                Ok((None, warnings)) => Done { outcome: Outcome::Unchanged, warnings },
                Ok((Some(patch), warnings)) => {
                    let old_length = file.fingerprint().size;
                    let outcome = Outcome::Written { old_length, new_length: patch.length };
                    Done { outcome, warnings }
                }
            }
        };
        files.par_iter().enumerate().map(one).collect()
    }

    fn prepare(
        &self,
        path: &Path,
        seen: &Mutex<FxHashSet<FileId>>,
        propose: impl FnOnce(&Reader) -> Result<Proposal, String>,
    ) -> Ready {
        let file = match self.writer.open(path) {
            Ok(file) => file,
            Err(error) => return Ready::Done(Done::refused(reason(&error, path))),
        };
        let is_new = seen.lock().unwrap_or_else(PoisonError::into_inner).insert(file.id());
        if !is_new {
            return Ready::Done(Done { outcome: Outcome::Unchanged, warnings: Vec::new() });
        }
        self.prepare_open(file, propose)
    }

    fn prepare_open(
        &self,
        file: FileUnderEdit,
        propose: impl FnOnce(&Reader) -> Result<Proposal, String>,
    ) -> Ready {
        let (patch, warnings) = match proposal(&file, propose) {
            Ok(proposal) => proposal,
            Err(why) => return Ready::Done(Done::refused(why)),
        };
        let Some(patch) = patch else {
            return Ready::Done(Done { outcome: Outcome::Unchanged, warnings });
        };
        let path = file.path().to_owned();
        match self.writer.prepare(file, patch) {
            Ok(prepared) => Ready::ToCommit(path, Box::new(prepared), warnings),
            Err(error) => Ready::Done(Done::refused(self.refused(&error, &path))),
        }
    }

    /// Commits what is ready, all at once, and puts the outcomes back in order.
    fn commit(&self, ready: Vec<Ready>) -> Vec<Done> {
        let (mut batch, mut told) = (Vec::new(), Vec::new());
        let done: Vec<Option<Done>> = ready
            .into_iter()
            .map(|ready| match ready {
                Ready::Done(done) => Some(done),
                Ready::ToCommit(path, prepared, warnings) => {
                    batch.push(*prepared);
                    told.push((path, warnings));
                    None
                }
            })
            .collect();
        let written = self.writer.commit(batch).into_iter().zip(told);
        let mut written = written.map(|(result, (path, warnings))| {
            let outcome = match result {
                Ok(written) => Outcome::Written {
                    old_length: written.old_length,
                    new_length: written.new_length,
                },
                Err(error) => Outcome::Refused(self.refused(&error, &path)),
            };
            Done { outcome, warnings }
        });
        done.into_iter().filter_map(|done| done.or_else(|| written.next())).collect()
    }
}

/// What is proposed for a file, unless it could not be read in full.
fn proposal(
    file: &FileUnderEdit,
    propose: impl FnOnce(&Reader) -> Result<Proposal, String>,
) -> Result<Proposal, String> {
    let proposal = propose(file.reader());
    match file.reader().error() {
        Some(error) => Err(words(error)),
        None => proposal,
    }
}

/// A file between opening and commit.
enum Ready {
    Done(Done),
    /// The file, what is to be committed, and the editor's remarks.
    ToCommit(PathBuf, Box<Prepared>, Vec<String>),
}

impl Done {
    /// True if what was to be written is not there.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self.outcome, Outcome::Refused(_) | Outcome::NotReached)
    }

    pub(crate) fn refused(why: String) -> Self {
        Self { outcome: Outcome::Refused(why), warnings: Vec::new() }
    }
}

/// The patch that gives a file its old bytes; none where becalm has not changed it.
pub(crate) fn take_back(reader: &Reader) -> Result<Proposal, String> {
    let state = becalm_rewrite::state(reader).map_err(|error| error.to_string())?;
    if state == becalm_rewrite::State::Untouched {
        return Ok((None, Vec::new()));
    }
    let patch = becalm_rewrite::undo(reader).map_err(|error| error.to_string())?;
    Ok((Some(patch), Vec::new()))
}

/// True if the disk has no room, or the user no more of it.
fn is_full(error: &WriteError) -> bool {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        let kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        if matches!(kind, Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded)) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Why a file was not written, without its path.
pub(crate) fn reason(error: &WriteError, path: &Path) -> String {
    let text = words_of_chain(error);
    match text.strip_prefix(&format!("{}: ", path.display())) {
        Some(rest) => rest.to_owned(),
        None => text,
    }
}

fn options(args: &WritingArgs) -> WriteOptions {
    WriteOptions {
        in_place: args.in_place,
        hard_links: match args.hardlinks {
            HardlinksArg::Refuse => HardLinks::Refuse,
            HardlinksArg::Break => HardLinks::Break,
            HardlinksArg::Keep => HardLinks::Keep,
        },
        set_id: args.setuid,
        keep_times: args.keep_times,
        durability: match args.no_sync {
            true => Durability::Unsynced,
            false => Durability::Synced,
        },
    }
}
