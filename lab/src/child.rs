//! Runs other programs with a clean environment and a time limit, and captures their output.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use becalm_host::child::status_within;

/// Time limit of a run, after which it is killed.
const LIMIT: Duration = Duration::from_secs(60);

/// Result of a run.
#[derive(Debug)]
pub(crate) struct Finished {
    /// The exit status.
    pub(crate) status: ExitStatus,
    /// Its standard output.
    pub(crate) stdout: String,
    /// Its standard error.
    pub(crate) stderr: String,
}

/// Creates a command without the variables that affect the loader, in English and without input.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let bytes = name.as_encoded_bytes();
        if bytes.starts_with(b"LD_") || bytes == b"GLIBC_TUNABLES" {
            command.env_remove(&name);
        }
    }
    command.env("LC_ALL", "C").stdin(Stdio::null());
    command
}

/// Runs `command` to its end and captures its output.
///
/// # Errors
/// Returns an error if the command cannot be started, or runs longer than a minute and is killed.
pub(crate) fn finish(command: &mut Command) -> Result<Finished> {
    let name = command.get_program().to_string_lossy().into_owned();
    // Files, unlike pipes, are never full, and end although a process that is left behind has them open.
    let (stdout, stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
    command.stdout(stdout.try_clone()?).stderr(stderr.try_clone()?);
    let mut child = command.spawn().with_context(|| format!("cannot run {name}"))?;
    let Some(status) = status_within(&mut child, LIMIT)? else {
        bail!("{name} did not end within {} s", LIMIT.as_secs());
    };
    let text = |mut file: File| -> Result<String> {
        let mut bytes = Vec::new();
        file.rewind()?;
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    Ok(Finished { status, stdout: text(stdout)?, stderr: text(stderr)? })
}

/// Does the same as [`finish`], and treats a failure of the command as an error.
///
/// # Errors
/// Returns the errors of [`finish`], and an error with the output if the command fails.
pub(crate) fn succeed(command: &mut Command) -> Result<String> {
    let run = finish(command)?;
    if !run.status.success() {
        bail!("{command:?}: {}: {}", run.status, run.stderr.trim());
    }
    Ok(run.stdout)
}

/// Runs a command that succeeds, however long it takes, and returns its standard output.
///
/// # Errors
/// Returns an error if the command cannot be started, and an error with the output if it fails.
pub(crate) fn whole(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command.stdin(Stdio::null()).output();
    let done = done.with_context(|| format!("cannot run {name}"))?;
    let [stdout, stderr] =
        [&done.stdout, &done.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    if !done.status.success() {
        bail!("{name}: {}: {}", done.status, format!("{stdout}{stderr}").trim());
    }
    Ok(stdout)
}
