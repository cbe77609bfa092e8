//! `becalm advise`: predicts each strategy for one program and prints the misses it would leave.

use std::io::Write as _;
use std::slice;

use anyhow::{Result, bail};
use becalm_lib::advise::advise;
use becalm_lib::assume::Assumptions;
use becalm_lib::launch;

use crate::advise::args::AdviseArgs;
use crate::advise::text;
use crate::exit_code::ExitStatus;
use crate::terminal;
use crate::terminal::style::{Look, When};

/// Predicts and prints.
///
/// # Errors
/// Returns an error if the paths name more or fewer than one program, or if the output cannot be
/// written.
pub(crate) fn run(args: &AdviseArgs, color: When) -> Result<ExitStatus> {
    let options = args.assume.clone();
    let mut assumed = Assumptions::new(&options)?;
    assumed.reads(None);
    let (found, launches) = launch::find(&assumed, slice::from_ref(&args.program));
    terminal::note_all(&found.problems);
    if !found.problems.is_empty() {
        return Ok(ExitStatus::Failure);
    }
    let [target] = found.files.as_slice() else {
        bail!("{}: a folder, not a program", args.program.display());
    };
    for finding in launches.iter().flat_map(|launch| &launch.findings) {
        terminal::note(finding.script.as_ref(), &finding.words);
    }
    let report = advise(&options, &assumed, target)?;
    terminal::write_report(args.json, &report, |out| {
        out.write_all(text::screen(Look::of_stdout(color), &report).as_bytes())
    })?;
    Ok(ExitStatus::Fine)
}
