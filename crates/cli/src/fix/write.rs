//! A plan carried out: what is made anew first, then the files, since an object may name only
//! what is there.

use std::fs::File;
use std::path::PathBuf;

use anyhow::Result;
use becalm_core::edit::Edit;
use becalm_core::strategy::{Creation, FilePlan, farm};
use becalm_lib::fix::plan::Planner;
use becalm_lib::targets::{Problem, Target};
use becalm_rewrite::State;
use bstr::{BStr, BString, ByteSlice};
use object::ReadCache;
use rayon::prelude::*;
use rustc_hash::FxHashSet;

use crate::common_args::writing::HardlinksArg;
use crate::fix::args::FixArgs;
use crate::fix::report::Report;
use crate::writing::removing::Remover;
use crate::writing::{Done, Editor, Outcome, Proposal, making, take_back};

/// Takes back what a run that was killed in the middle of writing in place left half done, so
/// that these files can be read again.
pub(crate) fn mend(args: &FixArgs, targets: &[Target]) -> Result<()> {
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
    let _ = Editor::new(&args.writing)?.change(&torn, |_, reader| take_back(reader));
    Ok(())
}

/// Writes what the report's plan says, and what became of it into the report.
pub(crate) fn carry_out(
    planner: &Planner<'_>,
    args: &FixArgs,
    littered: &[PathBuf],
    report: &mut Report,
) -> Result<()> {
    let editor = Editor::new(&args.writing)?;
    editor.clean(littered);
    let host = |path: &BStr| planner.host_path(path);
    let there = there_before(&report.plan.creations, host);
    report.made = making::make(&editor, &report.plan.creations, host);
    let failed: FxHashSet<BString> =
        report.made.iter().filter(|(_, done)| done.is_missing()).map(|(p, _)| p.clone()).collect();
    let Report { plan, problems, .. } = report;
    let (mut edited, mut paths): (Vec<&FilePlan>, Vec<PathBuf>) = (Vec::new(), Vec::new());
    let mut without: Vec<(BString, Done)> = Vec::new();
    for file in plan.files.iter().filter(|file| !file.edits.is_empty()) {
        if let Some(lacking) =
            file.edits.iter().flat_map(Edit::listed).find(|name| failed.contains(name.as_bytes()))
        {
            let why = format!("not changed: {lacking} could not be made");
            without.push((file.path.clone(), Done::refused(why)));
            continue;
        }
        match host(file.path.as_ref()) {
            Ok(path) => {
                edited.push(file);
                paths.push(path);
            }
            Err(reason) => problems.push(Problem { path: file.path.clone(), reason }),
        }
    }
    let keeps_inode = args.writing.in_place || args.writing.hardlinks == HardlinksArg::Keep;
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
    report.done = edited.iter().map(|file| file.path.clone()).zip(done).chain(without).collect();
    remove_unnamed(&editor, report, &there, host);
    Ok(())
}

/// What of the creations is there already; a link counts as its directory.
fn there_before(
    creations: &[Creation],
    host: impl Fn(&BStr) -> Result<PathBuf, String>,
) -> FxHashSet<BString> {
    let places = creations.iter().map(|creation| making::place_of(creation).to_owned());
    let is_there = |path: &BString| host(path.as_ref()).is_ok_and(|here| here.exists());
    places.filter(is_there).collect()
}

/// Removes what this run made for files that it could not change then, so that nothing is left
/// that no file names.
fn remove_unnamed(
    editor: &Editor,
    report: &mut Report,
    there: &FxHashSet<BString>,
    host: impl Fn(&BStr) -> Result<PathBuf, String>,
) {
    let not_done = |(_, done): &&(BString, Done)| done.is_missing();
    let left: FxHashSet<&BStr> =
        report.done.iter().filter(not_done).map(|(path, _)| path.as_ref()).collect();
    let names = |is_left: bool| -> FxHashSet<&BStr> {
        let files = report.plan.files.iter();
        let files = files.filter(|file| left.contains(&file.path.as_bstr()) == is_left);
        files.flat_map(|file| file.edits.iter().flat_map(Edit::listed)).collect()
    };
    let (of_left, of_others) = (names(true), names(false));
    let mut remover = Remover::new(editor, false);
    for (path, done) in &report.made {
        let is_made = matches!(done.outcome, Outcome::Written { .. }) && !there.contains(path);
        let name = path.as_bstr();
        // The list of a farm's objects goes with the farm.
        let is_of = |names: &FxHashSet<&BStr>| {
            let is_list = |farm: &&BStr| farm::list_of(farm).as_ref() == Some(path);
            names.contains(&name) || names.iter().any(is_list)
        };
        let Ok(here) = host(name) else { continue };
        if is_made && is_of(&of_left) && !is_of(&of_others) {
            remover.remove(&here, |it| making::is_our_index(it) || making::is_our_farm(&here, it));
        }
    }
    // With them went the directories that were made for them.
    report.made.retain(|(path, done)| {
        !matches!(done.outcome, Outcome::Written { .. })
            || host(path.as_ref()).is_ok_and(|here| here.symlink_metadata().is_ok())
    });
}
