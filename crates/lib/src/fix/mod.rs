//! `becalm fix`: plans a strategy for files, predicts the starts of their programs with the plan,
//! and applies it.

mod apply;
pub mod audit;
pub mod foresee;
pub mod judge;
pub mod loader;
pub mod options;
pub mod plan;
mod refused;
pub mod report;
mod scope;

use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use becalm_core::strategy::Severity;
use becalm_core::strategy::row::Unit;
use becalm_host::index_store::OsFingerprints;
use becalm_host::write::WriteOptions;
use bstr::BString;
use rayon::prelude::*;
use rustc_hash::FxHashSet;

use self::options::Options;
use self::plan::{Planned, Planner, Program};
use self::report::Report;
use crate::assume::Assumptions;
use crate::index::settled::let_settle;
use crate::path::path_bytes;
use crate::progress::Progress;
use crate::targets::{self, Target};

/// How often files are planned again because another process changes them.
const ATTEMPTS: u32 = 12;
/// The pause before the second attempt. Each further one is longer by as much.
const PAUSE: Duration = Duration::from_millis(20);

/// Applies a strategy to the files that the options name; without `writing` it is only planned. An
/// error of a single file is part of the report.
///
/// # Errors
/// Returns an error if the options contradict each other or nothing can be planned at all.
pub fn fix(
    options: &Options,
    writing: Option<WriteOptions>,
    progress: &dyn Progress,
) -> Result<Report> {
    options.check()?;
    let mut number = 1;
    loop {
        if let Some(report) = attempt(options, writing, progress, number == ATTEMPTS)? {
            return Ok(report);
        }
        thread::sleep(PAUSE * number);
        number += 1;
    }
}

/// Returns the assumptions of a plan. No variable of the current environment counts.
fn assumptions(options: &Options) -> Result<Assumptions> {
    let mut assumed = Assumptions::new(&options.assume)?;
    assumed.choice.tunables.clear();
    Ok(assumed)
}

/// Plans once, and applies the plan. Returns `None`, and has written nothing, if another process
/// changed a file meanwhile, unless this is the last attempt.
fn attempt(
    options: &Options,
    writing: Option<WriteOptions>,
    progress: &dyn Progress,
    is_last: bool,
) -> Result<Option<Report>> {
    let assumed = assumptions(options)?;
    let found = targets::find(&assumed, &options.paths);
    if let Some(writing) = writing {
        apply::mend(&found.files, writing, progress);
    }
    // Taken before the plan reads the files, so that a change during planning is noticed.
    let before = targets::fingerprints(&found.files);
    let planner = Planner::new(options, &assumed, progress);
    let mut planned = planner.plan(&found.files)?;
    planned.problems.extend(found.problems);
    let outside = scope::limit(&planner, &options.paths, &mut planned.plan);
    if writing.is_none() {
        refused::withdraw(&planner, &mut planned);
    }
    let edited = planned.plan.files.iter().filter(|file| !file.edits.is_empty());
    let edited: FxHashSet<BString> = edited.map(|file| file.path.clone()).collect();
    let made = planned.plan.creations.iter().map(|creation| creation.path().to_owned());
    let files = planned.plan.files.iter().map(|file| file.path.clone());
    let places: Vec<BString> = made.chain(files).collect();
    let starts = judge::judge(&planner, &mut planned);
    let has_refused = |planned: &Planned| {
        planned.plan.findings.iter().any(|finding| finding.what.severity() == Severity::Refused)
    };
    let is_changing = || {
        planned.replaced
            || targets::fingerprints(&found.files) != before
            || has_refused(&planned) && are_changing(&planner, &places)
    };
    if !is_last && is_changing() {
        return Ok(None);
    }
    let mut report = Report::of_plan(options, &planned.plan, (outside, &edited), starts);
    report.problems = planned.problems;
    if let Some(writing) = writing {
        report.apply(&planner, &planned.plan, &found.littered, writing);
        if options.with.row().unit.is_index() && !report.interrupted {
            add_bindings(&mut report, options, &found.files, (writing, progress))?;
        }
        if report.has_gaps() {
            measure_again(&mut report, options, &planned.programs, progress)?;
        }
    }
    Ok(Some(report))
}

/// Returns true if a file or directory was changed a moment ago. A plan that was refused because of
/// it may have seen the half of what another becalm does.
fn are_changing(planner: &Planner<'_>, places: &[BString]) -> bool {
    let fingerprints = OsFingerprints::default();
    places.par_iter().any(|place| {
        let here = planner.host_path(place.as_ref()).map(|here| path_bytes(&here));
        here.is_ok_and(|here| fingerprints.is_settled(here.as_ref()) == Ok(false))
    })
}

/// Writes the indexes of the programs with a `DT_AUDIT` entry once more, with symbol bindings,
/// which are valid only for the final file.
fn add_bindings(
    report: &mut Report,
    options: &Options,
    targets: &[Target],
    (writing, progress): (WriteOptions, &dyn Progress),
) -> Result<()> {
    let written = report.files.iter().filter(|file| file.outcome.is_written());
    let written: FxHashSet<&BString> = written.map(|file| &file.path).collect();
    let is_written = |target: &&Target| target.real().is_some_and(|real| written.contains(&real));
    let edited: Vec<Target> = targets.iter().filter(is_written).cloned().collect();
    if edited.is_empty() {
        return Ok(());
    }
    let_settle(edited.iter().map(|target| &target.host));
    let assumed = assumptions(options)?;
    let planner = Planner::new(options, &assumed, progress);
    let planned = planner.plan(&edited)?;
    report.make_again(&planner, &planned.plan.creations, writing);
    Ok(())
}

/// Replaces the predicted starts of the programs by the current ones, if a part of the plan could
/// not be written.
fn measure_again(
    report: &mut Report,
    options: &Options,
    programs: &[Program],
    progress: &dyn Progress,
) -> Result<()> {
    if !options.with.row().unit.is_index() {
        // The cached data of the files is out of date.
        let assumed = assumptions(options)?;
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

impl Options {
    /// Checks the options.
    ///
    /// # Errors
    /// Returns an error for options that the strategy does not use.
    fn check(&self) -> Result<()> {
        match &self.with.row().unit {
            Unit::Stores => {
                bail!("--with {} is for no file: becalm index makes an index", self.with)
            }
            unit if self.closure && !unit.has_closures() => {
                bail!("--closure is for --with farm and --with ldcache")
            }
            // An index has the fingerprints of files, and those of a package under construction are not known yet.
            Unit::Program if !self.prefix_map.is_empty() => {
                bail!(
                    "--prefix-map is not for --with audit: its index is made where the program stays"
                )
            }
            _ => Ok(()),
        }
    }
}
