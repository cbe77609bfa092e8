//! The reasons why strategies cannot be compared, or one of them cannot be tested.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use becalm_core::closure::ClosureError;
use becalm_host::bench::BenchError;
use becalm_host::mount_namespace::MountNamespaceError;
use becalm_rewrite::RewriteError;
use rayon::ThreadPoolBuildError;
use thiserror::Error;

use crate::escape::shown;
use crate::fix::FixError;
use crate::index::error::IndexError;
use crate::path::path_bytes;
use crate::trace::refused::ObserveError;

/// The reason why strategies cannot be compared, or one of them cannot be tested.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CompareError {
    /// A file or directory cannot be read, copied or made.
    #[error("{}", .path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The program cannot be compared.
    #[error("{}: {reason}", name(.path))]
    Program {
        /// The program.
        path: PathBuf,
        /// The reason.
        reason: NotCompared,
    },
    /// The program cannot be read.
    #[error(transparent)]
    Closure(#[from] ClosureError),
    /// The unchanged program does not start.
    #[error("{}", .program.display())]
    Control {
        /// The program, as it was named.
        program: PathBuf,
        /// The reason.
        source: Box<CompareError>,
    },
    /// A mount namespace cannot be made or entered.
    #[error(transparent)]
    Namespace(#[from] MountNamespaceError),
    /// A strategy cannot be planned.
    #[error(transparent)]
    Fix(#[from] FixError),
    /// The stores cannot be indexed.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// A strategy changed nothing. The text is the first file that it did not change, with the
    /// reason.
    #[error("{0}")]
    Refused(String),
    /// No thread can be started.
    #[error(transparent)]
    Threads(#[from] ThreadPoolBuildError),
    /// The packages are too large to be copied.
    #[error("the packages of its closure hold {bytes} MB, more than the {most} MB that are copied")]
    TooLarge {
        /// Their size in megabytes.
        bytes: u64,
        /// The most that is copied.
        most: u64,
    },
    /// The file system is full.
    #[error(
        "{}: no room: {free} MB are free, {needed} are needed; TMPDIR names another place",
        .dir.display()
    )]
    NoRoom {
        /// A directory on it.
        dir: PathBuf,
        /// Free space, in megabytes.
        free: u64,
        /// Needed space.
        needed: u64,
    },
    /// An object cannot be edited.
    #[error("{}", .path.display())]
    Edit {
        /// The object.
        path: PathBuf,
        /// The reason.
        source: RewriteError,
    },
    /// The closure has no program.
    #[error("no program in its own closure")]
    NoProgram,
    /// The given loader cannot replace the program's.
    #[error("--loader")]
    Loader(#[source] Box<CompareError>),
    /// The program has no C library that another could replace.
    #[error("the program loads no libc.so.6")]
    NoLibc,
    /// A start could not be traced.
    #[error(transparent)]
    Observe(#[from] ObserveError),
    /// A start did not end in time.
    #[error("did not end within {} s and was killed", .0.as_secs_f64())]
    TooLong(Duration),
    /// A start failed.
    #[error("{how}{}", .said.as_ref().map(|said| format!(": {said}")).unwrap_or_default())]
    Failed {
        /// The failure, for example `exit code 1`.
        how: String,
        /// The last line that the program wrote.
        said: Option<String>,
    },
    /// No column starts.
    #[error("nothing to time")]
    Nothing,
    /// The starts could not be timed.
    #[error(transparent)]
    Bench(#[from] BenchError),
}

/// The reason why a program cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotCompared {
    /// The path is not a file.
    #[error("not a program")]
    NoFile,
    /// The file is a script.
    #[error("a script; name what runs it: {0}")]
    Script(String),
    /// The file is not an ELF file.
    #[error("not an ELF file")]
    NotElf,
    /// The program is static, so no loader searches for its libraries.
    #[error(
        "a static program: no loader searches for it; compare another program with it by --static"
    )]
    Static,
    /// The file is a library.
    #[error("a library, not a program")]
    Library,
    /// The loader is not known.
    #[error("interpreter {0}")]
    Interpreter(String),
    /// The loader is musl's.
    #[error(
        "a program for musl, for which there is no index, no note and no cache; becalm fix --with \
         absolute or farm calms it, becalm bench measures that"
    )]
    Musl,
    /// Needed strings that are not found.
    #[error("its closure is not complete: nothing answers {0}")]
    Incomplete(String),
    /// A needed string at which the loader stops.
    #[error("the loader gives up at {0}")]
    Stops(String),
}

impl CompareError {
    /// Converts an error of the system about a file or directory.
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        |source| Self::Io { path: path.to_owned(), source }
    }
}

fn name(path: &Path) -> String {
    shown(path_bytes(path).as_ref())
}
