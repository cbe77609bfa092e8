//! `becalm doctor`: examines the session and prints what is wrong with it.

use std::io::Write as _;

use anyhow::{Context, Result};
use becalm_lib::doctor::{ProgramState, Session, examine};

use crate::doctor::args::DoctorArgs;
use crate::doctor::text;
use crate::exit_code::ExitStatus;
use crate::terminal;
use crate::terminal::style::{Look, When};

/// Examines and prints.
///
/// # Errors
/// Returns an error if the named program does not exist, or if the output cannot be written.
pub(crate) fn run(args: &DoctorArgs, color: When) -> Result<ExitStatus> {
    let absolute = |path| std::path::absolute(path).context("no current directory");
    let named = args.index.as_ref().map(absolute).transpose()?;
    let program =
        args.program.as_ref().map(|name| ProgramState::of(name.as_os_str())).transpose()?;
    let mut report = examine(&Session::of_process(), named.as_deref());
    report.add_kept();
    program.into_iter().for_each(|program| report.about(program));
    terminal::write_report(args.json, &report, |out| {
        out.write_all(text::screen(Look::of_stdout(color), &report).as_bytes())
    })?;
    Ok(if report.findings.is_empty() { ExitStatus::Fine } else { ExitStatus::Finding })
}
