//! Runs of becalm.

use crate::child;
use anyhow::Result;
use std::path::Path;
use std::process::Command;

/// Runs a command of becalm and discards its output.
///
/// # Errors
/// Returns an error if becalm cannot be run or fails; findings are no failure.
pub(crate) fn becalm(command: &mut Command) -> Result<()> {
    let run = child::finish(command)?;
    match run.status.code() {
        Some(0 | 1) => Ok(()),
        _ => anyhow::bail!("{command:?}: {}: {}", run.status, run.stderr.trim()),
    }
}

/// Applies a strategy to all of a store, without syncs.
///
/// # Errors
/// Returns the errors of [`becalm`].
pub(crate) fn fix(tool: &Path, strategy: &str, store: &Path) -> Result<()> {
    let mut fix = child::command(tool);
    becalm(fix.args(["fix", "--with", strategy, "--no-sync", "--store"]).args([store, store]))
}

/// Makes the index of all of a store.
///
/// # Errors
/// Returns the errors of [`becalm`].
pub(crate) fn index(tool: &Path, store: &Path, index: &Path) -> Result<()> {
    let mut make = child::command(tool);
    becalm(make.args(["index", "--store"]).args([store, store]).arg("-o").arg(index))
}
