//! Runs a child process without input, with output to files and a time limit.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::{OracleError, scratch};
use crate::child::ends_within;

/// The result of a run.
pub struct Ended {
    /// Its process id.
    pub pid: u32,
    /// True for exit code 0.
    pub success: bool,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
}

/// Runs a command. The process group is new, so that all its processes can be killed at the time
/// limit.
///
/// # Errors
/// Returns an error if the run fails to start or exceeds its time limit.
pub fn run(mut command: Command, object: &Path, limit: Duration) -> Result<Ended, OracleError> {
    let failed = scratch(object);
    // Files, because a program that fills a pipe would wait for a reader.
    let mut stdout = tempfile::tempfile().map_err(&failed)?;
    let mut stderr = tempfile::tempfile().map_err(&failed)?;
    command
        .stdin(Stdio::null())
        .stdout(stdout.try_clone().map_err(&failed)?)
        .stderr(stderr.try_clone().map_err(&failed)?)
        .process_group(0);
    let child = command
        .spawn()
        .map_err(|source| OracleError::Start { command: command.get_program().into(), source })?;
    let pid = child.id();
    let success = wait(child, object, limit)?;
    Ok(Ended {
        pid,
        success,
        stdout: rewound(&mut stdout).map_err(&failed)?,
        stderr: rewound(&mut stderr).map_err(&failed)?,
    })
}

/// Waits for the child, and kills its process group at the time limit.
fn wait(mut child: Child, object: &Path, limit: Duration) -> Result<bool, OracleError> {
    let failed = scratch(object);
    let in_time = ends_within(&mut child, limit).map_err(&failed)?;
    if !in_time {
        // The child is not reaped yet, so no other process group can have its id.
        let pid = rustix::process::Pid::from_child(&child);
        // The group may have ended just now, in which case nothing is left to kill.
        let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
    }
    let status = child.wait().map_err(&failed)?;
    match in_time {
        true => Ok(status.success()),
        false => Err(OracleError::TooLong { object: object.to_owned(), limit }),
    }
}

fn rewound(file: &mut File) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}
