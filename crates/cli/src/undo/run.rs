//! `becalm undo`: reverts files by [`becalm_lib::undo`] and prints the results.

use anyhow::Result;
use becalm_lib::undo::{Options, undo};

use crate::exit_code::ExitStatus;
use crate::jobs;
use crate::terminal;
use crate::terminal::progress::Bars;
use crate::terminal::style::{Look, When};
use crate::undo::args::UndoArgs;
use crate::undo::text;

/// Reverts the files that the flags name.
///
/// # Errors
/// Returns an error if nothing can be done at all. Problems of single files are printed on stderr
/// and set the exit status.
pub(crate) fn run(args: &UndoArgs, color: When) -> Result<ExitStatus> {
    jobs::limit(args.jobs)?;
    let options = Options { dry_run: args.dry_run, writing: args.writing };
    let report = undo(&args.paths, &options, &Bars::default());
    terminal::note_all(&report.problems);
    terminal::write_report(args.json, &report, |out| {
        text::text(out, Look::of_stdout(color), &report)
    })?;
    Ok(ExitStatus::of_writing(report.interrupted, report.has_failed(), false))
}
