//! `becalm fix`: applies a strategy by [`becalm_lib::fix`] and prints the results.

use anyhow::Result;
use becalm_lib::fix::fix;

use crate::exit_code::ExitStatus;
use crate::fix::args::FixArgs;
use crate::fix::text;
use crate::jobs;
use crate::terminal;
use crate::terminal::progress::Bars;
use crate::terminal::style::{Look, When};

/// Plans, and writes unless it is a dry run.
///
/// # Errors
/// Returns an error if nothing can be done at all. Problems of single files are printed on stderr
/// and set the exit status.
pub(crate) fn run(args: &FixArgs, color: When) -> Result<ExitStatus> {
    jobs::limit(args.jobs)?;
    let report = fix(&args.options, &Bars::default())?;
    terminal::note_all(&report.problems);
    terminal::write_report(args.json, &report, |out| {
        text::text(out, Look::of_stdout(color), &report)
    })?;
    let finding = report.refusals().next().is_some();
    Ok(ExitStatus::of_writing(report.interrupted, report.has_failed(), finding))
}
