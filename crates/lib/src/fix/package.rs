//! The plan of the targets' packages.

use std::path::PathBuf;

use becalm_core::closure::Subject;
use becalm_core::fs::MappedFs;
use becalm_core::search::store::below;
use becalm_core::strategy::{Finding, FindingKind, Plan, Severity, real_path};
use becalm_host::{WalkOptions, find_objects};
use bstr::{BStr, BString};
use rustc_hash::FxHashSet;

use crate::fix::planner::Planner;

/// Plans the targets' packages. The answers are for every object of a package, so the objects
/// that are not targets are resolved as well, and no answer contradicts one of them.
pub(super) fn plan(
    planner: &Planner<'_>,
    fs: &MappedFs<'_>,
    mut subjects: Vec<Subject>,
    plan: impl Fn(&[Subject]) -> Plan,
) -> Plan {
    let real = |path: &BString| real_path(fs, path.as_ref());
    let mut known: FxHashSet<BString> = subjects.iter().map(|s| real(&s.path)).collect();
    let targets = known.clone();
    let root =
        |path: &BString| planner.settings.stores.package_of(path.as_ref()).map(BStr::to_owned);
    let roots: FxHashSet<BString> = targets.iter().filter_map(root).collect();
    let walked = roots.iter().filter(|_| !planner.is_forecast);
    let here: Vec<PathBuf> =
        walked.filter_map(|root| planner.host_path(root.as_ref()).ok()).collect();
    for found in find_objects(&here, WalkOptions::default()).objects {
        let inside = fs.planned(planner.assumed.fs.inside(&found.path).as_ref());
        if let (true, Ok(subject)) =
            (known.insert(real(&inside)), Subject::open(fs, inside.as_ref()))
        {
            subjects.push(subject);
        }
    }
    let mut plan = plan(&subjects);
    let is_told = |path: &BString| targets.contains(path) || !known.contains(path);
    plan.files.retain(|file| is_told(&file.path));
    for root in roots.iter().filter(|root| is_outside(planner, root)) {
        plan.creations.retain(|creation| below(&creation.path, root).is_none());
        plan.findings.push(Finding::of_file(root.as_ref(), FindingKind::OutsidePaths));
    }
    let is_grave = |finding: &Finding| finding.severity >= Severity::Conflict;
    plan.findings.retain(|finding| is_grave(finding) || is_told(&finding.path));
    plan
}

/// True for a package that was only partly named.
fn is_outside(planner: &Planner<'_>, root: &BString) -> bool {
    let folders = || planner.settings.folders.iter();
    let covers = |folder: &BString| folder == root || below(root, folder).is_some();
    folders().any(|folder| below(folder, root).is_some()) && !folders().any(covers)
}
