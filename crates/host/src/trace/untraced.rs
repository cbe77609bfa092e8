//! Runs a program without a tracer and reads the loader's own log (`LD_DEBUG`), for machines that
//! forbid tracing.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{self, Stdio};
use std::time::Duration;

use becalm_core::record::ld_debug::{ProcessRecord, parse};

use super::spawn::Exec;
use super::{Command, Exit, TraceError, signals};
use crate::child::status_within;

/// A program that ran without a tracer.
#[derive(Debug)]
pub struct Untraced {
    /// The path of the executed file.
    pub path: PathBuf,
    /// Process id.
    pub pid: u32,
    /// The program's end.
    pub exit: Exit,
    /// The loader's log; `None` for a static program, a set-id program and a loader other than
    /// glibc's.
    pub record: Option<ProcessRecord>,
}

/// Runs a program with `LD_DEBUG=libs,files` in its environment and waits for it. It shares this
/// process's streams unless the command has others. Signals are forwarded as in [`super::run`]; with a
/// `limit` they are left to this process, as with [`super::Options::limit`].
///
/// # Errors
/// Returns an error if the program could not be started.
pub fn run_untraced(command: &Command, limit: Option<Duration>) -> Result<Untraced, TraceError> {
    let path = Exec::new(command)?.file();
    let failed = |source| TraceError::failed(&path, "a scratch folder failed", source);
    let dir = tempfile::tempdir().map_err(failed)?;
    // A program that changes its user must be able to write its log here.
    let open_to_all = fs::Permissions::from_mode(0o1777);
    fs::set_permissions(dir.path(), open_to_all).map_err(failed)?;
    let record = dir.path().join("record");
    let mut child = child(command, &path, &record)?;
    let status = match limit {
        None => {
            let _forwarding = signals::forward_to(child.id().cast_signed());
            child.wait().map_err(failed)?
        }
        Some(limit) => {
            let status = status_within(&mut child, limit).map_err(failed)?;
            status.ok_or_else(|| TraceError::TooLong { command: path.clone(), limit })?
        }
    };
    let pid = child.id();
    // The loader appends its process id to the name (ld.so(8), "LD_DEBUG_OUTPUT").
    let written = fs::read(dir.path().join(format!("record.{pid}"))).unwrap_or_default();
    let record = parse(&written).into_iter().find(|process| process.pid == pid);
    let exit = match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(u8::try_from(code & 0xff).unwrap_or(u8::MAX)),
        (None, signal) => Exit::Signal(signal.unwrap_or(0)),
    };
    Ok(Untraced { path, pid, exit, record })
}

fn child(command: &Command, path: &Path, record: &Path) -> Result<process::Child, TraceError> {
    let mut starting = command.of_std(path);
    if let Some(streams) = &command.streams {
        let copies = streams.files().map(|file| file.try_clone().map(Stdio::from));
        let failed = |source| TraceError::failed(path, "cannot create a process", source);
        let [stdin, stdout, stderr] = copies;
        starting.stdin(stdin.map_err(failed)?).stdout(stdout.map_err(failed)?);
        starting.stderr(stderr.map_err(failed)?);
    }
    // Set last, so that the command's own environment cannot replace them.
    starting.env("LD_DEBUG", "libs,files").env("LD_DEBUG_OUTPUT", record);
    starting
        .spawn()
        .map_err(|source: io::Error| TraceError::Exec { command: path.to_owned(), source })
}
