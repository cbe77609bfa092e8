//! `becalm on` and `becalm off`: by [`becalm_lib::on`].

use std::io::Write;

use anyhow::{Result, anyhow};
use becalm_lib::index::places::unused_home;
use becalm_lib::on::{Options, Report, apply, list, off as switch_off, plan};
use becalm_lib::path::path_bytes;

use crate::exit_code::ExitStatus;
use crate::on::args::{OffArgs, OnArgs};
use crate::on::text;
use crate::terminal::progress::Bars;
use crate::terminal::{self, Stdout};

/// Switches programs on, or lists those that are.
///
/// # Errors
/// Returns an error if a program cannot be switched on, or something cannot be written.
pub(crate) fn on(args: &OnArgs) -> Result<ExitStatus> {
    if args.list {
        let report = list(args.system)?;
        terminal::write_report(args.json, &report, |out| text::programs(out, &report))?;
        return Ok(ExitStatus::Fine);
    }
    let options = Options {
        programs: args.programs.clone(),
        system: args.system,
        update: args.update,
        writes: !args.dry_run,
        share_pages: args.share_pages && !args.no_share_pages,
    };
    if let Some(home) = unused_home().filter(|_| !args.system) {
        let why = "another user's home directory, which root does not use";
        terminal::note(path_bytes(&home).as_ref(), why);
    }
    let plan = plan(&options, &Bars::default())?;
    if args.dry_run {
        terminal::write_report(args.json, &plan.report, |out| text::programs(out, &plan.report))?;
        return Ok(status(&plan.report));
    }
    // Before anything is written. A reader that has gone does not stop that.
    if !args.json {
        let mut out = Stdout::new();
        let _ = text::programs(&mut out, &plan.report).and_then(|()| out.flush());
    }
    let report = apply(plan, &Bars::default())?;
    terminal::write_report(args.json, &report, |out| text::written(out, &report))?;
    Ok(status(&report))
}

/// Prints what was refused, and returns the exit status.
fn status(report: &Report) -> ExitStatus {
    for problem in &report.problems {
        terminal::complain(&anyhow!("{problem}"));
    }
    if report.problems.is_empty() { ExitStatus::Fine } else { ExitStatus::Failure }
}

/// Switches programs off.
///
/// # Errors
/// Returns an error if a program is not switched on, or something cannot be removed.
pub(crate) fn off(args: &OffArgs) -> Result<ExitStatus> {
    let report = switch_off(&args.programs, args.system, &Bars::default())?;
    terminal::write_report(args.json, &report, |out| text::off(out, &report))?;
    Ok(ExitStatus::Fine)
}
