//! The edits of a plan that are not made: those of files outside the named paths and folders, and of files that
//! cannot be edited, found without writing.

use std::path::{Path, PathBuf};

use becalm_core::edit::Edit;
use becalm_core::strategy::{FilePlan, Finding, FindingKind, Plan};
use becalm_host::write::Writer;
use bstr::BString;
use rayon::prelude::*;
use rustc_hash::FxHashMap;

use crate::fix::plan::Planned;
use crate::fix::planner::Planner;
use crate::targets::Problem;
use crate::words::words_of_chain;

/// Returns the files that a plan edits and that are neither named by the paths nor below them. Unless the
/// plan is for closures, these edits are removed from it and become findings. A path that does not exist
/// covers nothing.
pub(crate) fn limit(planner: &Planner<'_>, paths: &[PathBuf], plan: &mut Plan) -> Vec<BString> {
    let os = &planner.assumed.fs;
    let real = |path: &PathBuf| os.host_path(os.inside(path).as_ref()).ok()?.canonicalize().ok();
    let named: Vec<PathBuf> = paths.iter().filter_map(real).collect();
    let is_covered = |file: &FilePlan| {
        let here = planner.host_path(file.path.as_ref()).ok().and_then(|it| it.canonicalize().ok());
        here.is_some_and(|here| named.iter().any(|named| here.starts_with(named)))
    };
    let Plan { files, findings, .. } = plan;
    let mut outside = Vec::new();
    for file in files.iter_mut().filter(|file| !file.edits.is_empty() && !is_covered(file)) {
        if planner.options.closure {
            outside.push(file.path.clone());
        } else {
            file.edits.clear();
            findings.push(Finding::of_file(file.path.as_ref(), FindingKind::OutsidePaths));
        }
    }
    outside
}

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
    let writer = Writer::new(planner.options.dry);
    let refused = refused.filter_map(|file| {
        let here = planner.host_path(file.path.as_ref()).ok()?;
        Some((file.path.clone(), reason(&writer, &here, &file.edits)?))
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

fn reason(writer: &Writer, path: &Path, edits: &[Edit]) -> Option<String> {
    if edits.is_empty() {
        return None;
    }
    let file = writer.open_to_read(path).ok()?;
    let of_edit = || becalm_rewrite::edit(&file.reader, edits).err();
    writer.refusal(&file).or_else(|| of_edit().map(|error| words_of_chain(&error)))
}
