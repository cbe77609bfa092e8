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
    let run = child::finish(command.args(arguments))?;
    match run.status.code() {
        Some(0 | 1) => Ok(()),
        _ => anyhow::bail!("{command:?}: {}: {}", run.status, run.stderr.trim()),
    }
}

/// Applies a strategy to all of a store, without syncs.
///
/// # Errors
/// Returns the errors of [`becalm`].
pub(crate) fn fix(tool: &Path, strategy: &str, store: &str) -> Result<()> {
    becalm(tool, &["fix", "--with", strategy, "--no-sync", "--store", store, store])
}
