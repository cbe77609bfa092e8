//! Runs a child process without input, with output to files and a time limit.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::{OracleError, scratch};
use crate::child::status_within;

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

/// Runs a command. At the time limit all its processes are killed.
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
        .stderr(stderr.try_clone().map_err(&failed)?);
    let spawned = command.spawn();
    let mut child = spawned.map_err(|source| {
        let path = command.get_program().into();
        OracleError::Failed { path, what: "cannot be started", source }
    })?;
    let pid = child.id();
    let status = status_within(&mut child, limit).map_err(&failed)?;
    let too_long = || OracleError::TooLong { object: object.to_owned(), limit };
    let success = status.ok_or_else(too_long)?.success();
    Ok(Ended {
        pid,
        success,
        stdout: rewound(&mut stdout).map_err(&failed)?,
        stderr: rewound(&mut stderr).map_err(&failed)?,
    })
}

fn rewound(file: &mut File) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}
