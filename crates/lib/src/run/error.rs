//! The reasons why a program is not started with an index.

use std::error::Error;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use becalm_core::closure::ClosureError;
use becalm_core::facts::{GLIBC_RANGE, Libc};
use becalm_host::HostError;
use becalm_host::write::WriteError;
use bstr::ByteSlice;
use rustix::io::Errno;
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
    #[error(
        "no index with paths: becalm index --paths STORE... makes one, for packages that never change; \
         other trees need none"
    )]
    NoPaths,
    /// The index that was named has no paths.
    #[error(
        "{}: the index has no paths; becalm index --paths STORE... makes one with those of packages",
        .0.display()
    )]
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
    /// A file of the cache cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
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
    /// True if the same attempt may succeed later, with the same files: a full disk, a lack of
    /// memory or descriptors, a device or file server that did not answer.
    pub(crate) fn is_temporary(&self) -> bool {
        let mut cause: Option<&(dyn Error + 'static)> = match self {
            Self::Loader { error, .. } => Some(error),
            Self::Closure(ClosureError::Open { errno, .. }) => {
                return is_temporary(&io::Error::from_raw_os_error(errno.0));
            }
            error => Some(error),
        };
        while let Some(error) = cause {
            if error.downcast_ref().is_some_and(is_temporary) {
                return true;
            }
            cause = error.source();
        }
        false
    }

    /// Returns an error of the system about a path.
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        |source| Self::Io { path: path.into(), source }
    }
}

fn is_temporary(error: &io::Error) -> bool {
    let errnos = [
        Errno::NOSPC,
        Errno::DQUOT,
        Errno::IO,
        Errno::NOMEM,
        Errno::MFILE,
        Errno::NFILE,
        Errno::AGAIN,
        Errno::INTR,
        Errno::BUSY,
        Errno::ROFS,
        Errno::STALE,
        Errno::TIMEDOUT,
        Errno::NETDOWN,
        Errno::NETUNREACH,
        Errno::HOSTDOWN,
    ];
    error.raw_os_error().is_some_and(|errno| errnos.iter().any(|it| it.raw_os_error() == errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_temporary_wherever_it_is_met_and_a_missing_file_is_not() {
        let source = |errno: Errno| io::Error::from_raw_os_error(errno.raw_os_error());
        let all = |errno: Errno| {
            let path = PathBuf::from("/x");
            let write = WriteError::Open { path: path.clone(), source: source(errno) };
            let errno = becalm_core::fs::Errno(errno.raw_os_error());
            [
                RunError::io(&path)(io::Error::from_raw_os_error(errno.0)),
                RunError::Index(IndexError::io(&path)(io::Error::from_raw_os_error(errno.0))),
                RunError::Index(IndexError::Write(write)),
                RunError::Closure(ClosureError::Open { path: "/x".into(), errno }),
                RunError::Loader {
                    program: path.clone(),
                    error: HostError::Read { path, source: io::Error::from_raw_os_error(errno.0) },
                },
            ]
        };
        for errno in [Errno::NOSPC, Errno::DQUOT, Errno::IO, Errno::NOMEM] {
            assert!(all(errno).iter().all(RunError::is_temporary), "{errno}");
        }
        assert!(!all(Errno::NOENT).iter().any(RunError::is_temporary));
    }
}
