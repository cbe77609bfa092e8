//! Runs of other programs: a clean environment, a time limit, whole output.

use std::ffi::OsStr;
use std::io::Read;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use becalm_host::child::status_within;

/// How long any one run may take before it is killed.
const LIMIT: Duration = Duration::from_secs(60);

/// What a run left behind.
#[derive(Debug)]
pub(crate) struct Finished {
    /// How it ended.
    pub(crate) status: ExitStatus,
    /// Its standard output.
    pub(crate) stdout: String,
    /// Its standard error.
    pub(crate) stderr: String,
}

/// A command that sees none of the variables the loader obeys, speaks English
/// and reads from nowhere.
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

/// Runs `command` to its end and takes all it says.
///
/// # Errors
/// It cannot be started, or it runs longer than a minute (it is killed then).
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

/// As [`finish`], for a command whose failure is an error.
///
/// # Errors
/// As [`finish`]; and a status other than success, with what it said.
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
            // A broken pipe leaves what came before it, which is what is wanted.
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}
