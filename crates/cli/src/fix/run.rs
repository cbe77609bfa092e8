//! `becalm fix`: what a strategy proposes for the files asked for, checked and written.
//!
//! [`plan`] asks the strategy, [`judge`] follows the programs' starts as they would be and takes
//! out what would change one, [`write`] carries the rest out; [`crate::fix::text`] tells it.

use std::io::Write;

use anyhow::{Result, bail};
use becalm_core::strategy::{Finding, Severity};
use becalm_lib::assume::Assumptions;
use becalm_lib::fix::options::Strategy;
use becalm_lib::fix::scope::Scope;
use becalm_lib::fix::{judge, plan};
use becalm_lib::path;
use becalm_lib::targets;
use bstr::BString;
use rustc_hash::FxHashSet;

use crate::exit_code::ExitStatus;
use crate::fix::args::FixArgs;
use crate::fix::report::Report;
use crate::fix::{text, write};
use crate::jobs;
use crate::terminal::progress::Bars;
use crate::terminal::style::{Look, When};
use crate::terminal::{self, Stdout};
use crate::writing::Done;

/// Plans, and writes unless told not to.
///
/// # Errors
/// Where nothing can be done at all. What is wrong with single files is told on stderr and in
/// the status.
pub(crate) fn run(args: &FixArgs, color: When) -> Result<ExitStatus> {
    check_flags(args)?;
    let options = args.options();
    let assumed = Assumptions::new(&options.assume)?;
    jobs::limit(args.jobs)?;
    let found = targets::find(&assumed, &args.paths);
    if !args.dry_run {
        write::mend(args, &found.files)?;
    }
    let planner = plan::Planner::new(&options, &assumed, &Bars);
    let mut planned = planner.plan(&found.files)?;
    planned.problems.extend(found.problems);
    let scope = Scope::new(&assumed, &args.paths);
    let outside = scope.limit(&mut planned.plan, args.closure, |path| planner.host_path(path));
    let starts = judge::judge(&planner, &mut planned);
    let outside = planned.plan.edited_of(outside);
    let mut report = Report {
        dry_run: args.dry_run,
        outside,
        plan: planned.plan,
        done: Vec::new(),
        made: Vec::new(),
        starts,
        problems: planned.problems,
        interrupted: false,
    };
    if !args.dry_run {
        write::carry_out(&planner, args, &found.littered, &mut report)?;
    }
    let is_missing = |list: &[(BString, Done)]| list.iter().any(|(_, done)| done.is_missing());
    if is_missing(&report.done) || is_missing(&report.made) {
        report.measure_again(args, &planned.programs)?;
    }
    tell(args, &report, color)?;
    Ok(report.status())
}

/// # Errors
/// Returns an error for flags that the strategy has no use for.
fn check_flags(args: &FixArgs) -> Result<()> {
    if args.closure && !matches!(args.with, Strategy::Farm | Strategy::Ldcache) {
        bail!("--closure is for --with farm and --with ldcache");
    }
    // An index has the fingerprints of files; below FINAL there are none yet.
    if !args.prefix_map.is_empty() && args.with == Strategy::Audit {
        bail!("--prefix-map is not for --with audit: its index is made where the program stays");
    }
    Ok(())
}

fn tell(args: &FixArgs, report: &Report, color: When) -> Result<()> {
    terminal::note_all(&report.problems);
    let mut out = Stdout::new();
    if args.json {
        text::json(&mut out, args, report)?;
    } else {
        text::text(&mut out, Look::of_stdout(color), args, report)?;
    }
    out.flush()?;
    Ok(())
}

impl Report {
    /// Replaces what was planned for the programs' starts by what they are now, when a part of
    /// the plan could not be written.
    fn measure_again(&mut self, args: &FixArgs, programs: &[plan::Program]) -> Result<()> {
        if args.with == Strategy::Audit {
            self.forget_unwritten(programs);
            return Ok(());
        }
        // What was remembered of the files is what they were.
        let options = args.options();
        let assumed = Assumptions::new(&options.assume)?;
        let planner = plan::Planner::new(&options, &assumed, &Bars);
        self.starts = judge::measure(&planner, programs);
        Ok(())
    }

    /// A program without its `DT_AUDIT` entry starts as before.
    fn forget_unwritten(&mut self, programs: &[plan::Program]) {
        let missing = self.done.iter().filter(|(_, done)| done.is_missing());
        let missing: FxHashSet<&BString> = missing.map(|(path, _)| path).collect();
        for (start, program) in self.starts.iter_mut().zip(programs) {
            let real = program.target.host.canonicalize();
            if real.is_ok_and(|real| missing.contains(&path::path_bytes(&real))) {
                start.after = Some(start.before);
            }
        }
    }

    /// Findings that are worth an exit status of their own.
    pub(crate) fn refusals(&self) -> impl Iterator<Item = &Finding> {
        self.plan.findings.iter().filter(|finding| finding.what.severity() >= Severity::Conflict)
    }

    fn status(&self) -> ExitStatus {
        use crate::writing::Outcome;
        let failed = self
            .done
            .iter()
            .chain(&self.made)
            .any(|(_, done)| matches!(done.outcome, Outcome::Refused(_)));
        if self.interrupted {
            ExitStatus::INTERRUPTED
        } else if failed || !self.problems.is_empty() {
            ExitStatus::Failure
        } else if self.refusals().next().is_some() {
            ExitStatus::Finding
        } else {
            ExitStatus::Fine
        }
    }
}
