//! Work that is done once more after a plan was applied: indexes with bindings, starts of what was not written.

use anyhow::Result;
use bstr::BString;
use rustc_hash::FxHashSet;

use crate::fix::judge;
use crate::fix::options::Options;
use crate::fix::plan::{self, Program};
use crate::fix::planner::Planner;
use crate::fix::report::Report;
use crate::index::settled::let_settle;
use crate::progress::Progress;
use crate::targets::Target;

/// Writes the indexes of the programs with a `DT_AUDIT` entry once more, with symbol bindings,
/// which are valid only for the final file.
pub(super) fn add_bindings(
    report: &mut Report,
    options: &Options,
    targets: &[Target],
    progress: &dyn Progress,
) -> Result<()> {
    let written = report.files.iter().filter(|file| file.outcome.is_written());
    let written: FxHashSet<&BString> = written.map(|file| &file.path).collect();
    let is_written = |target: &&Target| target.real().is_some_and(|real| written.contains(&real));
    let edited: Vec<Target> = targets.iter().filter(is_written).cloned().collect();
    if edited.is_empty() {
        return Ok(());
    }
    let_settle(edited.iter().map(|target| &target.host));
    let assumed = options.assumptions()?;
    let planner = Planner::new(options, &assumed, progress);
    let planned = plan::plan(&planner, &edited)?;
    report.make_again(&planner, &planned.plan.creations);
    Ok(())
}

/// Replaces the predicted starts of the programs by the current ones, if a part of the plan could
/// not be written.
pub(super) fn measure(
    report: &mut Report,
    options: &Options,
    programs: &[Program],
    progress: &dyn Progress,
) -> Result<()> {
    if !options.with.row().unit.is_index() {
        // The cached data of the files is out of date.
        let assumed = options.assumptions()?;
        report.programs = judge::measure(&Planner::new(options, &assumed, progress), programs);
        return Ok(());
    }
    // Without its `DT_AUDIT` entry, a program starts as before.
    let Report { files, programs: starts, .. } = report;
    let missing = files.iter().filter(|file| file.outcome.is_missing());
    let missing: FxHashSet<&BString> = missing.map(|file| &file.path).collect();
    for (start, program) in starts.iter_mut().zip(programs) {
        if program.target.real().is_some_and(|real| missing.contains(&real)) {
            start.after = Some(start.before);
        }
    }
    Ok(())
}
