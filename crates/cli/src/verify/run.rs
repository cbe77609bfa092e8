//! `becalm verify`: compares answers and indexes with the search by [`becalm_lib::verify`].

use anyhow::Result;
use becalm_lib::verify::{Options, verify};

use crate::exit_code::ExitStatus;
use crate::jobs;
use crate::terminal;
use crate::terminal::progress::Bars;
use crate::terminal::style::{Look, When};
use crate::verify::args::VerifyArgs;
use crate::verify::text;

/// Verifies the paths of the flags.
///
/// # Errors
/// Returns an error if nothing can be verified at all, or if the output cannot be written.
pub(crate) fn run(args: &VerifyArgs, color: When) -> Result<ExitStatus> {
    jobs::limit(args.jobs)?;
    let look = Look::of_stdout(color);
    let paths = args.paths.clone();
    let options = Options { paths, load: args.load, assume: args.assume.clone() };
    let report = verify(&options, &Bars::default())?;
    terminal::note_all(&report.problems);
    terminal::write_report(args.json, &report, |out| text::text(out, look, &report))?;
    Ok(if report.has_bad_index() {
        ExitStatus::Finding
    } else if !report.problems.is_empty() {
        ExitStatus::Failure
    } else if report.has_finding() {
        ExitStatus::Finding
    } else {
        ExitStatus::Fine
    })
}
