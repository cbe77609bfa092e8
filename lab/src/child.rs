//! Runs other programs with a clean environment and a time limit, and captures their output.

use std::ffi::OsStr;
use std::io::Read;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
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
pub(crate) fn finish(mut command: Command) -> Result<Finished> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot run {name}"))?;
    let stdout = drain(child.stdout.take());
    let stderr = drain(child.stderr.take());
    let Some(status) = status_within(&mut child, LIMIT)? else {
        bail!("{name} did not end within {} s", LIMIT.as_secs());
    };
    let text = |bytes: thread::JoinHandle<Vec<u8>>| {
        String::from_utf8_lossy(&bytes.join().unwrap_or_default()).into_owned()
    };
    Ok(Finished { status, stdout: text(stdout), stderr: text(stderr) })
}

/// Does the same as [`finish`], and treats a failure of the command as an error.
///
/// # Errors
/// Returns the errors of [`finish`], and an error with the output if the command fails.
pub(crate) fn succeed(command: Command) -> Result<String> {
    let shown = format!("{command:?}");
    let run = finish(command)?;
    if !run.status.success() {
        bail!("{shown}: {}: {}", run.status, run.stderr.trim());
    }
    Ok(run.stdout)
}

fn drain(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // If the pipe breaks, the output before that is enough.
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}
