//! `becalm fix`: plans a strategy for files, predicts the starts of their programs with the plan,
//! and applies it.

mod again;
mod apply;
pub mod audit;
pub mod foresee;
pub mod judge;
pub mod loader;
mod object;
pub mod options;
mod package;
pub mod plan;
pub mod planner;
mod refused;
pub mod report;
mod scope;

use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use becalm_core::index::Fingerprint;
use becalm_core::index::build::Fingerprints;
use becalm_core::strategy::Severity;
use becalm_core::strategy::row::Unit;
use becalm_host::index_store::OsFingerprints;
use bstr::BString;
use rayon::prelude::*;
use rustc_hash::FxHashSet;

use self::options::Options;
use self::plan::Planned;
use self::planner::Planner;
use self::report::Report;
use crate::assume::Assumptions;
use crate::path::path_bytes;
use crate::progress::Progress;
use crate::targets::{self, Target};

/// How often files are planned again because another process changes them.
const ATTEMPTS: u32 = 12;
/// The pause before the second attempt. Each further one is longer by as much.
const PAUSE: Duration = Duration::from_millis(20);

/// Applies a strategy to the files that the options name, unless they are for a dry run. An error of a single
/// file is part of the report.
///
/// # Errors
/// Returns an error if the options contradict each other or nothing can be planned at all.
pub fn fix(options: &Options, progress: &dyn Progress) -> Result<Report> {
    options.check()?;
    let mut number = 1;
    loop {
        if let Some(report) = attempt(options, progress, number == ATTEMPTS)? {
            return Ok(report);
        }
        thread::sleep(PAUSE * number);
        number += 1;
    }
}

/// Plans once, and applies the plan. Returns `None`, and has written nothing, if another process
/// changed a file meanwhile, unless this is the last attempt.
fn attempt(options: &Options, progress: &dyn Progress, is_last: bool) -> Result<Option<Report>> {
    let assumed = options.assumptions()?;
    let found = targets::find(&assumed, &options.paths);
    if !options.dry_run {
        apply::mend(&found.files, options.writing, progress);
    }
    // Taken before the plan reads the files, so that a change during planning is noticed.
    let before = fingerprints(&found.files);
    let planner = Planner::new(options, &assumed, progress);
    let mut planned = plan::plan(&planner, &found.files)?;
    planned.problems.extend(found.problems);
    let outside = scope::limit(&planner, &options.paths, &mut planned.plan);
    if options.dry_run {
        refused::withdraw(&planner, &mut planned);
    }
    let edited = planned.plan.files.iter().filter(|file| !file.edits.is_empty());
    let edited: FxHashSet<BString> = edited.map(|file| file.path.clone()).collect();
    let made = planned.plan.creations.iter().map(|creation| creation.path.clone());
    let files = planned.plan.files.iter().map(|file| file.path.clone());
    let places: Vec<BString> = made.chain(files).collect();
    let starts = judge::judge(&planner, &mut planned);
    if !is_last && is_changing(&planner, &planned, (&found.files, &before), &places) {
        return Ok(None);
    }
    let mut report = Report::of_plan(options, &planned.plan, (outside, &edited), starts);
    report.problems = planned.problems;
    if !options.dry_run {
        report.apply(&planner, &planned.plan, &found.littered);
        if options.with.row().unit.is_index() && !report.interrupted {
            again::add_bindings(&mut report, options, &found.files, progress)?;
        }
        if report.files.iter().chain(&report.made).any(|file| file.outcome.is_missing()) {
            again::measure(&mut report, options, &planned.programs, progress)?;
        }
    }
    Ok(Some(report))
}

/// Returns the fingerprint of each file, by which changes are detected; none for a file that cannot
/// be examined.
fn fingerprints(files: &[Target]) -> Vec<Option<Fingerprint>> {
    let system = OsFingerprints::default();
    let of = |target: &Target| system.fingerprint(path_bytes(&target.host).as_ref()).ok();
    files.par_iter().map(of).collect()
}

/// Returns true if a file was changed since its fingerprint was taken, or if the plan was refused and one of
/// its places was changed a moment ago: it may have seen the half of what another becalm does.
fn is_changing(
    planner: &Planner<'_>,
    planned: &Planned,
    (files, before): (&[Target], &[Option<Fingerprint>]),
    places: &[BString],
) -> bool {
    let system = OsFingerprints::default();
    let is_recent = |place: &BString| {
        let here = planner.host_path(place.as_ref()).map(|here| path_bytes(&here));
        here.is_ok_and(|here| system.is_settled(here.as_ref()) == Ok(false))
    };
    let mut findings = planned.plan.findings.iter();
    planned.replaced
        || fingerprints(files) != before
        || findings.any(|finding| finding.severity == Severity::Refused)
            && places.par_iter().any(is_recent)
}

impl Options {
    /// Returns the assumptions of a plan. No variable of the current environment counts.
    fn assumptions(&self) -> Result<Assumptions> {
        let mut assumed = Assumptions::new(&self.assume)?;
        assumed.choice.tunables.clear();
        Ok(assumed)
    }

    /// Checks the options.
    ///
    /// # Errors
    /// Returns an error for options that the strategy does not use.
    fn check(&self) -> Result<()> {
        match &self.with.row().unit {
            Unit::Stores => {
                bail!("--with {} is for no file: becalm index makes an index", self.with)
            }
            unit if self.closure
                && !matches!(unit, Unit::ObjectOrClosure(..) | Unit::Package(_)) =>
            {
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
