//! Runs other programs, whose failure ends the chore.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::{Duration, Instant};

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

/// Returns the real path of the given program, or of the one of this name beside this program.
///
/// # Errors
/// Returns an error if there is none.
pub(crate) fn given_or_beside(given: Option<&Path>, name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe()?.with_file_name(name);
    let path = given.unwrap_or(&own);
    path.canonicalize().with_context(|| format!("{} (cargo build -p {name})", path.display()))
}

/// Waits until another process has done something. Returns false if it has not at the limit.
pub(crate) fn is_done_within(limit: Duration, is_done: impl Fn() -> bool) -> bool {
    let began = Instant::now();
    while !is_done() {
        if began.elapsed() > limit {
            return false;
        }
        sleep(Duration::from_millis(10));
    }
    true
}
