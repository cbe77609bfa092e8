//! `becalm run --warm`: reads pages ahead without starting a program.

use std::ffi::OsString;
use std::io::Write;

use anyhow::Result;
use becalm_lib::ahead::warm::{Warmed, warm};
use becalm_lib::escape::shown;
use becalm_lib::words::counted;
use bstr::ByteSlice;

use crate::doctor::text::mib;
use crate::exit_code::ExitStatus;
use crate::terminal;

/// Reads the pages of programs and prints what was read for each.
///
/// # Errors
/// Returns an error if nothing is known of what is switched on, or the result cannot be printed.
pub(crate) fn run(commands: &[OsString], as_json: bool) -> Result<ExitStatus> {
    let report = warm(commands)?;
    terminal::write_report(as_json, &report, |out| {
        if report.programs.is_empty() {
            return writeln!(
                out,
                "no program is switched on: becalm on, or becalm run --warm CMD..."
            );
        }
        report.programs.iter().try_for_each(|program| match &program.problem {
            Some(problem) => {
                terminal::note(program.path.as_ref(), &shown(problem.as_bytes().as_bstr()));
                Ok(())
            }
            None => writeln!(out, "{}: {}", shown(program.path.as_ref()), text(program)),
        })
    })?;
    let is_done = report.programs.iter().all(|program| program.problem.is_none());
    Ok(if is_done { ExitStatus::Fine } else { ExitStatus::Finding })
}

fn text(program: &Warmed) -> String {
    let files = counted(program.files as u64, "file", "files");
    let skipped = match program.skipped {
        0 => String::new(),
        skipped => format!("; {} changed or missing", counted(skipped as u64, "file", "files")),
    };
    let predicted = if program.predicted { ", predicted: no start was recorded" } else { "" };
    format!("{} of {files}{skipped}{predicted}", mib(program.bytes))
}
