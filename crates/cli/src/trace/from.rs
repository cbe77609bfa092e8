//! `becalm trace --from`: shows a log of the audit module instead of a run.

use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use becalm_host::trust;
use becalm_lib::escape::shown;
use becalm_lib::json::document;
use becalm_lib::trace::log::{self, Report};
use becalm_lib::words::{counted, grouped};

use crate::exit_code::ExitStatus;
use crate::terminal::style::{Look, When};
use crate::terminal::{Stdout, probes};
use crate::trace::args::TraceArgs;

/// Shows a log.
///
/// # Errors
/// Returns an error if the log cannot be read or has no line of the module, or if the report cannot
/// be written.
pub(crate) fn run(args: &TraceArgs, log: &Path, color: When) -> Result<ExitStatus> {
    let report = log::read(log)?;
    let look = match args.output {
        Some(_) => Look::of_file(color),
        None => Look::of_stdout(color),
    };
    let text = logged(look, args, &report);
    match &args.output {
        Some(path) => {
            let written = trust::create(path)?.write_all(&text);
            written.with_context(|| path.display().to_string())?;
        }
        None => {
            let mut out = Stdout::new();
            out.write_all(&text)?;
            out.flush()?;
        }
    }
    Ok(ExitStatus::Fine)
}

/// Returns the log in the requested form.
fn logged(look: Look, args: &TraceArgs, report: &Report) -> Vec<u8> {
    if args.json {
        return document(report);
    }
    let mut text = String::new();
    for process in &report.images {
        if args.probes {
            text.push_str(&probes::lines(look, process.probes.iter()));
            continue;
        }
        let path = look.strong(&shown(process.path.as_ref()));
        let lookups = counted(process.lookups as u64, "question", "questions");
        let answered = grouped(process.answered as u64);
        let misses = match process.missed_opens as u64 {
            0 => look.good("no failed opens"),
            number => look.costly(&counted(number, "failed open", "failed opens")),
        };
        let _ = writeln!(
            text,
            "{path} [{}]: {lookups}, {answered} answered by the index; {misses}",
            process.pid
        );
    }
    text.into_bytes()
}
