//! `becalm trace --from`: shows a log of the audit module instead of a run.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use becalm_host::trust;
use becalm_lib::trace::log;

use crate::exit_code::ExitStatus;
use crate::terminal::Stdout;
use crate::terminal::style::{Look, When};
use crate::trace::args::TraceArgs;
use crate::trace::logged;

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
    let text = logged::logged(look, args, &report);
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
