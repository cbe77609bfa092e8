//! Applies a plan: creations first, then the files, because an object may only name existing files.

use std::fs::File;
use std::path::PathBuf;

use becalm_core::edit::Edit;
use becalm_core::strategy::{Created, FilePlan, Plan, farm};
use becalm_host::write::{Reader, WriteOptions};
use becalm_rewrite::State;
use bstr::{BStr, BString, ByteSlice};
use object::ReadCache;
use rayon::prelude::*;
use rustc_hash::FxHashSet;

use crate::fix::planner::Planner;
use crate::fix::report::Report;
use crate::problem::{NoPlace, Problem};
use crate::progress::Progress;
use crate::targets::Target;
use crate::writing::removing::Remover;
use crate::writing::{Changed, Editor, Outcome, edit, making, revert};

/// Reverts the half-written files of a run that was killed while writing in place, so that these
/// files can be read again.
pub(super) fn mend(targets: &[Target], writing: WriteOptions, progress: &dyn Progress) {
    let torn = |target: &&Target| {
        let state =
            File::open(&target.host).map(|file| becalm_rewrite::state(&ReadCache::new(file)));
        matches!(state, Ok(Ok(State::Appending | State::Torn)))
    };
    // Another becalm may have been writing the file, and may have finished.
    let revert_torn = |reader: &Reader| match becalm_rewrite::state(reader)? {
        State::Appending | State::Torn => revert(reader),
        _ => Ok((None, Vec::new())),
    };
    let torn: Vec<PathBuf> = targets.par_iter().filter(torn).map(|t| t.host.clone()).collect();
    if !torn.is_empty() {
        // A file that cannot be reverted is reported when it is edited.
        Editor::new(writing, progress).change(&torn, |_, reader| revert_torn(reader));
    }
}

impl Report {
    /// Writes the changes of the plan that is reported.
    pub(super) fn apply(&mut self, planner: &Planner<'_>, plan: &Plan, littered: &[PathBuf]) {
        let writing = planner.options.writing;
        let editor = Editor::new(writing, planner.progress);
        editor.clean(littered);
        let host = |path: &BStr| planner.host_path(path);
        // A link counts as its directory.
        let places = plan.creations.iter().map(|creation| making::place_of(creation).to_owned());
        let is_there = |path: &BString| host(path.as_ref()).is_ok_and(|here| here.exists());
        let there: FxHashSet<BString> = places.filter(is_there).collect();
        self.dry_run = false;
        self.made = making::make(&editor, &plan.creations, host);
        let (edited, paths) = self.edited(plan, host);
        let done = editor.change(&paths, |at, reader| edit(reader, &edited[at].edits, writing));
        let path = |file: &FilePlan| file.path.clone();
        let done = edited.iter().zip(done).map(|(file, done)| Changed { path: path(file), ..done });
        // Files that name a failed creation are last.
        self.files.splice(0..0, done);
        self.interrupted = editor.is_interrupted();
        self.remove_unnamed(&editor, plan, &there, host);
    }

    /// Writes files of this run again, with other content.
    pub(super) fn make_again(&mut self, planner: &Planner<'_>, creations: &[Created]) {
        let editor = Editor::new(planner.options.writing, planner.progress);
        let made = making::make(&editor, creations, |path| planner.host_path(path));
        for again in made {
            match self.made.iter_mut().find(|known| known.path == again.path) {
                Some(known) if again.outcome.is_written() || again.outcome.is_missing() => {
                    *known = again;
                }
                // The file has that content already.
                Some(_) => {}
                None => self.made.push(again),
            }
        }
    }

    /// Returns the files of a plan that can be changed, with their paths on this machine. A file
    /// that names a failed creation cannot.
    fn edited<'p>(
        &mut self,
        plan: &'p Plan,
        host: impl Fn(&BStr) -> Result<PathBuf, NoPlace>,
    ) -> (Vec<&'p FilePlan>, Vec<PathBuf>) {
        let failed = self.made.iter().filter(|made| made.outcome.is_missing());
        let failed: FxHashSet<&BStr> = failed.map(|made| made.path.as_ref()).collect();
        let (mut edited, mut paths) = (Vec::new(), Vec::new());
        for file in plan.files.iter().filter(|file| !file.edits.is_empty()) {
            let mut names = file.edits.iter().flat_map(Edit::listed);
            if let Some(lacking) = names.find(|name| failed.contains(name)) {
                let why = format!("not changed: {lacking} could not be made");
                self.files.push(Changed::of(file.path.clone(), Outcome::refused(why)));
                continue;
            }
            match host(file.path.as_ref()) {
                Ok(path) => {
                    edited.push(file);
                    paths.push(path);
                }
                Err(error) => self.problems.push(Problem::new(file.path.clone(), error)),
            }
        }
        (edited, paths)
    }

    /// Removes creations for files that could not be changed, so that no unused file remains.
    fn remove_unnamed(
        &mut self,
        editor: &Editor<'_>,
        plan: &Plan,
        there: &FxHashSet<BString>,
        host: impl Fn(&BStr) -> Result<PathBuf, NoPlace>,
    ) {
        let not_done = self.files.iter().filter(|file| file.outcome.is_missing());
        let left: FxHashSet<&BStr> = not_done.map(|file| file.path.as_ref()).collect();
        let names = |is_left: bool| -> FxHashSet<&BStr> {
            let files = plan.files.iter();
            let files = files.filter(|file| left.contains(&file.path.as_bstr()) == is_left);
            files.flat_map(|file| file.edits.iter().flat_map(Edit::listed)).collect()
        };
        let (of_left, of_others) = (names(true), names(false));
        let mut remover = Remover::new(editor);
        for made in &self.made {
            let is_made = made.outcome.is_written() && !there.contains(&made.path);
            let name = made.path.as_bstr();
            // The list of a farm's objects is removed with the farm.
            let is_of = |names: &FxHashSet<&BStr>| {
                let is_list = |farm: &&BStr| farm::list_of(farm).as_ref() == Some(&made.path);
                names.contains(&name) || names.iter().any(is_list)
            };
            let Ok(here) = host(name) else { continue };
            if is_made && is_of(&of_left) && !is_of(&of_others) {
                let is_ours = |it: &_| making::is_our_index(it) || making::is_our_farm(&here, it);
                remover.remove(&here, is_ours);
            }
        }
        // The directories that were made for them are removed as well.
        self.made.retain(|made| {
            !made.outcome.is_written()
                || host(made.path.as_ref()).is_ok_and(|here| here.symlink_metadata().is_ok())
        });
    }
}
