//! Runs other programs with a clean environment and a time limit, and captures their output.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read, Seek};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use becalm_host::child::status_within;

/// Time limit of a short run, after which it is killed, and of any run.
const LIMIT: Duration = Duration::from_secs(60);
const LONGEST: Duration = Duration::from_secs(24 * 3600);

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

/// Creates a command without the variables that affect the loader, in English.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let bytes = name.as_encoded_bytes();
        if bytes.starts_with(b"LD_") || bytes == b"GLIBC_TUNABLES" {
            command.env_remove(&name);
        }
    }
    command.env("LC_ALL", "C");
    command
}

/// Runs `command` to its end and captures its output.
///
/// # Errors
/// Returns an error if the command cannot be started, or runs longer than a minute and is killed.
pub(crate) fn finish(command: &mut Command) -> Result<Finished> {
    finish_within(command, LIMIT)
}

fn finish_within(command: &mut Command, limit: Duration) -> Result<Finished> {
    let name = command.get_program().to_string_lossy().into_owned();
    // Files, unlike pipes, are never full, and end although a process that is left behind has them open.
    let (stdout, stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
    command.stdin(Stdio::null()).stdout(stdout.try_clone()?).stderr(stderr.try_clone()?);
    let mut child = command.spawn().with_context(|| format!("cannot run {name}"))?;
    let Some(status) = status_within(&mut child, limit)? else {
        bail!("{name} did not end within {} s", limit.as_secs());
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
    succeed_within(command, LIMIT)
}

/// Does the same as [`succeed`], however long the command takes.
///
/// # Errors
/// Returns the errors of [`succeed`].
pub(crate) fn whole(command: &mut Command) -> Result<String> {
    succeed_within(command, LONGEST)
}

fn succeed_within(command: &mut Command, limit: Duration) -> Result<String> {
    let Finished { status, stdout, stderr } = finish_within(command, limit)?;
    ensure!(status.success(), "{command:?}: {status}: {}", format!("{stdout}{stderr}").trim());
    Ok(stdout)
}

/// Runs a command under strace, with variables that do not affect strace itself. Returns the log.
///
/// # Errors
/// Returns an error if strace is missing or the command fails.
pub(crate) fn strace(
    options: &[&str],
    environment: &[(&str, String)],
    line: &[impl AsRef<OsStr>],
) -> Result<String> {
    let log = tempfile::NamedTempFile::new()?;
    let mut strace = command("strace");
    strace.args(options).arg("-o").arg(log.path());
    strace.args(environment.iter().map(|(name, value)| format!("-E{name}={value}")));
    succeed(strace.args(line))?;
    Ok(fs::read_to_string(log.path())?)
}

/// Compiles one C source.
///
/// # Errors
/// Returns the errors of [`succeed`].
pub(crate) fn compile(file: &Path, source: &str, flags: &[impl AsRef<OsStr>]) -> Result<()> {
    let script = r#"source=$1; shift; printf %s "$source" | ${CC:-cc} -O1 -x c - -x none -o "$@""#;
    let mut shell = command("sh");
    shell.args(["-euc", script, "sh", source]).arg(file).args(flags);
    succeed(&mut shell).map(drop)
}
