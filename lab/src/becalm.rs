//! Runs of becalm.

use crate::child;
use anyhow::Result;
use std::path::Path;

/// Runs becalm and discards its output.
///
/// # Errors
/// Returns an error if becalm cannot be run or fails; findings are no failure.
pub(crate) fn becalm(becalm: &Path, arguments: &[&str]) -> Result<()> {
    let mut command = child::command(becalm);
    command.args(arguments);
    let shown = format!("{command:?}");
    let run = child::finish(command)?;
    match run.status.code() {
        Some(0 | 1) => Ok(()),
        _ => anyhow::bail!("{shown}: {}: {}", run.status, run.stderr.trim()),
    }
}
