//! Runs a child process with a clean environment, without input, with output to files and a time
//! limit.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{ErrorKind, Read, Seek};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{OracleError, Start, scratch};
use crate::child::ends_within;

/// The result of a run.
pub(super) struct Ended {
    /// Its process id.
    pub(super) pid: u32,
    /// True for exit code 0.
    pub(super) success: bool,
    /// Standard output.
    pub(super) stdout: Vec<u8>,
    /// Standard error.
    pub(super) stderr: Vec<u8>,
}

/// Starts the child. If the program was just written, another thread's child may still have it open
/// for writing between its fork and exec, so this retries on `ETXTBSY`.
fn spawn(command: &mut Command, limit: Duration) -> std::io::Result<Child> {
    let began = Instant::now();
    loop {
        match command.spawn() {
            Err(error)
                if error.kind() == ErrorKind::ExecutableFileBusy && began.elapsed() < limit =>
            {
                sleep(Duration::from_millis(1));
            }
            other => return other,
        }
    }
}

/// Runs `line` with only the environment `env`, and, if `confined`, in the root and as the user of the
/// start. The process group is new, so that all its processes
/// can be killed at the time limit.
pub(super) fn run(
    start: &Start,
    line: &[OsString],
    env: &[(OsString, OsString)],
    confined: bool,
) -> Result<Ended, OracleError> {
    let object = start.object.as_path();
    let failed = scratch(object);
    // Files, because a program that fills a pipe would wait for a reader.
    let mut stdout = tempfile::tempfile().map_err(&failed)?;
    let mut stderr = tempfile::tempfile().map_err(&failed)?;
    let mut command = Command::new(&line[0]);
    command
        .args(&line[1..])
        .env_clear()
        .envs(env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(stdout.try_clone().map_err(&failed)?)
        .stderr(stderr.try_clone().map_err(&failed)?)
        .process_group(0);
    if let Some(dir) = &start.dir {
        command.current_dir(dir);
    }
    if confined {
        confine(&mut command, start);
    }
    let child = spawn(&mut command, start.limit)
        .map_err(|source| OracleError::Start { command: line[0].clone().into(), source })?;
    let pid = child.id();
    let success = wait(child, object, start.limit)?;
    Ok(Ended {
        pid,
        success,
        stdout: rewound(&mut stdout).map_err(&failed)?,
        stderr: rewound(&mut stderr).map_err(&failed)?,
    })
}

/// Makes the child change its root and its user.
#[allow(unsafe_code, reason = "std has no stable way to change a child's root")]
fn confine(command: &mut Command, start: &Start) {
    if let Some(root) = &start.root {
        // A path with a NUL cannot exist, and neither does the empty path.
        let root = CString::new(root.as_os_str().as_bytes()).unwrap_or_default();
        #[allow(unsafe_code, reason = "a chroot has to happen in the child")]
        // SAFETY: between fork and exec only two system calls are made, on a path that was
        // allocated before. rustix calls the kernel without taking locks.
        unsafe {
            command.pre_exec(move || {
                rustix::process::chroot(root.as_c_str())?;
                // chroot(2) does not change the current directory, which would stay outside of the
                // new root.
                Ok(rustix::process::chdir(c"/")?)
            });
        }
    }
    if let Some(user) = &start.user {
        command.uid(user.uid).gid(user.gid);
    }
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
