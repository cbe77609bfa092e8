//! `becalm verify`: compares answers and indexes with the search by [`becalm_lib::verify`].

use anyhow::Result;
use becalm_lib::index::file::is_index;
use becalm_lib::verify::{Options, index, verify};

use crate::exit_code::ExitStatus;
use crate::jobs;
use crate::terminal;
use crate::terminal::progress::Bars;
use crate::terminal::style::{Look, When};
use crate::verify::args::VerifyArgs;
use crate::verify::{index_text, text};

/// Verifies what the flags ask for.
///
/// # Errors
/// Where nothing can be verified at all, or the output cannot be written.
pub(crate) fn run(args: &VerifyArgs, color: When) -> Result<ExitStatus> {
    jobs::limit(args.jobs)?;
    let look = Look::of_stdout(color);
    if let [path] = args.paths.as_slice()
        && is_index(path)
    {
        let report = index::verify(path, args.load)?;
        terminal::note_all(&report.problems);
        terminal::write_report(args.json, &report, |out| index_text::text(out, look, &report))?;
        return Ok(index_status(&report));
    }
    let paths = args.paths.clone();
    let options = Options { paths, load: args.load, assume: args.assume.options() };
    let report = verify(&options, &Bars)?;
    terminal::note_all(&report.problems);
    terminal::write_report(args.json, &report, |out| text::text(out, look, &report))?;
    Ok(if !report.problems.is_empty() {
        ExitStatus::Failure
    } else if report.has_finding() {
        ExitStatus::Finding
    } else {
        ExitStatus::Fine
    })
}

fn index_status(report: &index::Report) -> ExitStatus {
    if report.indexes.iter().any(|index| !index.differences.is_empty()) {
        ExitStatus::Finding
    } else if !report.problems.is_empty() {
        ExitStatus::Failure
    } else {
        ExitStatus::Fine
    }
}
