//! The files of a plan that cannot be edited, found without writing.

use std::fs::File;

use becalm_host::write::Writer;
use bstr::BString;
use object::ReadCache;
use rayon::prelude::*;
use rustc_hash::FxHashMap;

use crate::fix::plan::Planned;
use crate::fix::planner::Planner;
use crate::targets::Problem;
use crate::words::words_of_chain;

/// Removes the edits of files from a plan for which no patch can be computed, and reports each file
/// with the reason: what `becalm fix` reports when it writes. A forecast tries only programs: it is made for
/// each program that `becalm check` checks, and a patch of every library with every strategy would take
/// half as long again.
pub(crate) fn withdraw(planner: &Planner<'_>, planned: &mut Planned) {
    let programs = planned.programs.iter().map(|program| &program.target);
    let programs = programs.filter_map(|target| Some((target.real()?, target.shown.clone())));
    let programs: FxHashMap<BString, BString> = programs.collect();
    let is_tried = |path| !planner.is_forecast || programs.contains_key(path);
    let refused = planned.plan.files.par_iter().filter(|file| is_tried(&file.path));
    let writer = Writer::new(planner.options.writing);
    let refused = refused.filter_map(|file| {
        let here = planner.host_path(file.path.as_ref()).ok()?;
        let data = ReadCache::new(File::open(&here).ok().filter(|_| !file.edits.is_empty())?);
        let of_edit = || becalm_rewrite::edit(&data, &file.edits).err();
        // A forecast is of a strategy, not of the options for writing.
        let of_writer = (!planner.is_forecast).then(|| writer.refusal(&here)).flatten();
        let why = of_writer.or_else(|| Some(words_of_chain(&of_edit()?)))?;
        Some((file.path.clone(), why))
    });
    let refused: FxHashMap<BString, String> = refused.collect();
    if refused.is_empty() {
        return;
    }
    planned.plan.withdraw(|path| refused.contains_key(path));
    if planner.options.with.row().unit.is_index() {
        // Without its entry, a program has no index.
        planned.plan.files.retain(|file| !refused.contains_key(&file.path));
    }
    // A program is reported by the path that the user named.
    let problems = refused.into_iter().map(|(path, reason)| {
        let shown = programs.get(&path).cloned();
        Problem { path: shown.unwrap_or(path), reason }
    });
    let mut problems: Vec<Problem> = problems.collect();
    problems.sort_by(|a, b| a.path.cmp(&b.path));
    planned.problems.extend(problems);
}
