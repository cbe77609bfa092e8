//! The files that a run may change: those that were named, and those below the named folders.

use std::path::PathBuf;

use becalm_core::strategy::{FilePlan, Finding, FindingKind, Plan};
use bstr::BString;

use crate::fix::planner::Planner;

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
