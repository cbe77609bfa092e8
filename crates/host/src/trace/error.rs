//! Why a program could not be traced.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why a program could not be traced. Nothing is left running.
#[derive(Debug, Error)]
pub enum TraceError {
    /// No file of that name, or none along `PATH`.
    #[error("{}: command not found", command.display())]
    NotFound {
        /// The command.
        command: PathBuf,
    },
    /// `execve` failed: a directory, no permission, no program, a script without
    /// interpreter, another architecture (`ENOEXEC`).
    #[error("{}: cannot be executed", command.display())]
    Exec {
        /// The command, as it was found.
        command: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The current directory asked for cannot be entered.
    #[error("{}: cannot be entered", dir.display())]
    Directory {
        /// The directory.
        dir: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The command, an argument or the environment holds a NUL byte.
    #[error("{}: a NUL byte in the command line", command.display())]
    Nul {
        /// The command.
        command: PathBuf,
    },
    /// No process could be made.
    #[error("{}: no process can be made for it", command.display())]
    Fork {
        /// The command.
        command: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// ptrace is forbidden (Yama, a container's seccomp policy) or missing, or the
    /// kernel is older than 5.3: `LD_DEBUG=libs` is what remains.
    #[error("{}: tracing is not permitted here", command.display())]
    NotPermitted {
        /// The command.
        command: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// This architecture has no decoder.
    #[error("{}: no tracer for this architecture", command.display())]
    Architecture {
        /// The command.
        command: PathBuf,
    },
    /// A call of the tracer itself failed.
    #[error("{}: {call} failed", command.display())]
    Tracer {
        /// The command.
        command: PathBuf,
        /// What failed.
        call: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}
