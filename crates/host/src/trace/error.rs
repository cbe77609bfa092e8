//! Errors of a traced run.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;

/// Reason why a program could not be traced. No process is left running.
#[derive(Debug, Error)]
pub enum TraceError {
    /// No file has that path, or none along `PATH` has that name.
    #[error("{}: command not found", .0.display())]
    NotFound(PathBuf),
    /// `execve` failed, for example for a directory, a file without permission, a script without
    /// interpreter, or another architecture (`ENOEXEC`).
    #[error("{}: cannot be executed", command.display())]
    Exec {
        /// The path of the command's file.
        command: PathBuf,
        /// The error of the system call.
        #[source]
        source: io::Error,
    },
    /// The command, an argument or the environment has a NUL byte.
    #[error("{}: a NUL byte in the command line", .0.display())]
    Nul(PathBuf),
    /// ptrace is forbidden (by Yama or a container's seccomp policy) or missing, or the kernel is
    /// older than 5.3. `LD_DEBUG=libs` still works.
    #[error("{}: tracing is not permitted here", command.display())]
    NotPermitted {
        /// The command.
        command: PathBuf,
        /// The error of the system call.
        #[source]
        source: io::Error,
    },
    /// The program did not end within the time limit ([`super::Options::limit`]).
    #[error("{}: did not end within {} s and was killed", command.display(), limit.as_secs_f64())]
    TooLong {
        /// The command.
        command: PathBuf,
        /// The time limit.
        limit: Duration,
    },
    /// The process could not be made, or a call of the tracer itself failed.
    #[error("{}: {what}", path.display())]
    Failed {
        /// The command, or the requested current directory.
        path: PathBuf,
        /// The failure.
        what: &'static str,
        /// The error of the system call.
        #[source]
        source: io::Error,
    },
}

impl TraceError {
    pub(crate) fn failed(path: &Path, what: &'static str, source: impl Into<io::Error>) -> Self {
        Self::Failed { path: path.to_owned(), what, source: source.into() }
    }
}
