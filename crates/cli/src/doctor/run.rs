//! `becalm doctor`: examines the session and prints what is wrong with it.

use std::io::Write;

use anyhow::{Context, Result};
use becalm_lib::doctor::{Session, examine};
use becalm_lib::json::as_json;

use crate::doctor::args::DoctorArgs;
use crate::doctor::text;
use crate::exit_code::ExitStatus;
use crate::terminal::Stdout;
use crate::terminal::style::{Look, When};

/// Examines and prints.
///
/// # Errors
/// If the output cannot be written.
pub(crate) fn run(args: &DoctorArgs, color: When) -> Result<ExitStatus> {
    let absolute = |path| std::path::absolute(path).context("no current directory");
    let named = args.index.as_ref().map(absolute).transpose()?;
    let report = examine(&Session::of_process(), named.as_deref());
    let mut out = Stdout::new();
    if args.json {
        out.write_all(&as_json(&report))?;
        out.write_all(b"\n")?;
    } else {
        out.write_all(text::screen(Look::of_stdout(color), &report).as_bytes())?;
    }
    out.flush()?;
    Ok(if report.findings.is_empty() { ExitStatus::Fine } else { ExitStatus::Finding })
}
