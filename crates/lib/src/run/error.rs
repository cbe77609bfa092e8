//! The reasons why a program is not started with an index.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use becalm_core::closure::ClosureError;
use becalm_core::facts::{GLIBC_RANGE, Libc};
use becalm_host::HostError;
use bstr::ByteSlice;
use thiserror::Error;

use crate::index::error::IndexError;
use crate::words::words_of_host;

/// The reason why a program is not started with an index.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// No directory of `PATH` has the command.
    #[error("{}: command not found", .0.to_string_lossy())]
    NotFound(OsString),
    /// A file cannot be read or written.
    #[error("{}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file cannot be executed.
    #[error("{}: not a program", .0.display())]
    NotAProgram(PathBuf),
    /// The path of the open file is unknown.
    #[error("{}: its path is unknown", .0.display())]
    NoPath(PathBuf),
    /// There are more nested scripts than the kernel follows.
    #[error("{}: too many interpreters", .0.display())]
    Interpreters(PathBuf),
    /// The program starts in secure-execution mode.
    #[error("{}: starts in secure-execution mode: its loader ignores LD_AUDIT", .0.display())]
    Secure(PathBuf),
    /// The program's loader is musl's.
    #[error(
        "{}: musl's loader has no audit modules, so an index has no effect; becalm fix --with \
         absolute or farm can", .0.display()
    )]
    Musl(PathBuf),
    /// The program's glibc is too old.
    #[error(
        "{}: {libc} is too old for the audit module, which needs {}", .program.display(),
        Libc::Glibc(GLIBC_RANGE.0)
    )]
    OldGlibc {
        /// The program.
        program: PathBuf,
        /// Its C library.
        libc: Libc,
    },
    /// No loader can start the program under an audit module.
    #[error(
        "{}: a library of it has thread-local storage with an alignment that no loader under an \
         audit module can", .0.display()
    )]
    NoStart(PathBuf),
    /// The index is for another machine.
    #[error("{}: an index for {machine}, and {} is for {of_program}", .index.display(), .program.display())]
    Machine {
        /// The index.
        index: PathBuf,
        /// Its machine.
        machine: &'static str,
        /// The program.
        program: PathBuf,
        /// The machine of the program.
        of_program: &'static str,
    },
    /// There is no index with paths.
    #[error("no index with paths; becalm index --paths makes one")]
    NoPaths,
    /// The index that was named has no paths.
    #[error("{}: the index has no paths; becalm index --paths adds them", .0.display())]
    WithoutPaths(PathBuf),
    /// The environment has no home directory.
    #[error("no home directory for the cache of indexes")]
    NoHome,
    /// Another process has been making the index for longer than becalm waits.
    #[error("{}: another process has been making it for minutes", .0.display())]
    Busy(PathBuf),
    /// An index could not be made a short time ago.
    #[error("{0}")]
    Failed(String),
    /// The loader of the program is unknown.
    #[error("{}: interpreter {}", .program.display(), in_words(.error))]
    Loader {
        /// The program.
        program: PathBuf,
        /// The reason.
        error: HostError,
    },
    /// The start of the program cannot be predicted.
    #[error(transparent)]
    Closure(#[from] ClosureError),
    /// The index cannot be read or made.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The request for the next `becalm index` cannot be written.
    #[error(transparent)]
    Request(#[from] serde_json::Error),
}

fn in_words(error: &HostError) -> String {
    let (path, reason) = words_of_host(error);
    format!("{}: {reason}", path.as_bstr())
}

impl RunError {
    /// Returns an error of the system about a path.
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        |source| Self::Io { path: path.into(), source }
    }
}
