//! Runs other programs, whose failure ends the chore.

use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use bstr::ByteSlice;

/// Runs a command and returns its output.
///
/// # Errors
/// Returns an error with its output if it cannot be started or fails.
pub(crate) fn output(command: &mut Command) -> Result<Output> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let said = [output.stdout.trim_ascii(), output.stderr.trim_ascii()];
    let [out, error] = said.map(ByteSlice::to_str_lossy);
    ensure!(output.status.success(), "{command:?}: {}: {out}{error}", output.status);
    Ok(output)
}

/// Runs a command whose output does not matter.
///
/// # Errors
/// Returns the errors of [`output`].
pub(crate) fn succeed(command: &mut Command) -> Result<()> {
    output(command).map(drop)
}
