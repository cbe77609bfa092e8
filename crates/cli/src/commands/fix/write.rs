//! A plan carried out: what is made anew first, then the files, since an object may name only
//! what is there.

use std::fs::File;
use std::path::PathBuf;

use anyhow::Result;
use becalm_core::carrier::FilePlan;
use becalm_rewrite::State;
use bstr::{BStr, BString};
use object::ReadCache;
use rayon::prelude::*;

use super::Report;
use super::plan::Planner;
use crate::commands::making;
use crate::commands::targets::{Problem, Target};
use crate::commands::undo;
use crate::commands::writing::{Done, Editor, Outcome, Proposal};
use crate::flags::{FixFlags, HardlinksFlag};
use crate::output::words_of_host;

/// Takes back what a run that was killed in the middle of writing in place left half done, so
/// that these files can be read again.
pub(super) fn mend(asked: &FixFlags, targets: &[Target]) -> Result<()> {
    let torn = |target: &&Target| {
        let state =
            File::open(&target.host).map(|file| becalm_rewrite::state(&ReadCache::new(file)));
        matches!(state, Ok(Ok(State::Interrupted)))
    };
    let torn: Vec<PathBuf> = targets.par_iter().filter(torn).map(|t| t.host.clone()).collect();
    if torn.is_empty() {
        return Ok(());
    }
    // What cannot be taken back now is told when it is to be fixed.
    let _ = Editor::new(&asked.writing)?.change(&torn, |_, reader| undo::take_back(reader));
    Ok(())
}

/// Writes what the report's plan says, and what became of it into the report.
pub(super) fn carry_out(
    planner: &Planner<'_>,
    asked: &FixFlags,
    littered: &[PathBuf],
    report: &mut Report,
) -> Result<()> {
    let editor = Editor::new(&asked.writing)?;
    editor.clean(littered);
    let session = planner.assumed.fs.session();
    let fs = planner.mapped(&session);
    let host = |path: &BStr| {
        let here = fs.real(path);
        planner.assumed.fs.host_path(here.as_ref()).map_err(|error| words_of_host(&error).1)
    };
    report.made = making::make(&editor, &report.plan.creations, host);
    let failed = |(_, done): &(BString, Done)| matches!(done.outcome, Outcome::Refused(_));
    if report.made.iter().any(failed) {
        // An object must not name what could not be made.
        return Ok(());
    }
    let Report { plan, problems, .. } = report;
    let (mut edited, mut paths): (Vec<&FilePlan>, Vec<PathBuf>) = (Vec::new(), Vec::new());
    for file in plan.files.iter().filter(|file| !file.edits.is_empty()) {
        match host(file.path.as_ref()) {
            Ok(path) => {
                edited.push(file);
                paths.push(path);
            }
            Err(reason) => problems.push(Problem { path: file.path.clone(), reason }),
        }
    }
    let keeps_inode = asked.writing.in_place || asked.writing.hardlinks == HardlinksFlag::Keep;
    let propose = |at: usize, reader: &becalm_host::write::Reader| -> Result<Proposal, String> {
        let edits = &edited[at].edits;
        let result = match keeps_inode {
            true => becalm_rewrite::edit_in_place(reader, edits),
            false => becalm_rewrite::edit(reader, edits),
        };
        let edited = result.map_err(|error| error.to_string())?;
        Ok((edited.patch, edited.warnings.iter().map(ToString::to_string).collect()))
    };
    let done = editor.change(&paths, propose);
    report.interrupted = editor.is_interrupted();
    report.done = edited.iter().map(|file| file.path.clone()).zip(done).collect();
    Ok(())
}
