//! The reasons why a program cannot be examined or copied.

use std::io;
use std::path::{Path, PathBuf};

use becalm_core::closure::ClosureError;
use becalm_rewrite::RewriteError;
use thiserror::Error;

use crate::escape::shown;
use crate::path::path_bytes;

/// The reason why a program cannot be examined or copied.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SubjectError {
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

impl SubjectError {
    /// Converts an error of the system about a file or directory.
    pub fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        |source| Self::Io { path: path.to_owned(), source }
    }
}

fn name(path: &Path) -> String {
    shown(path_bytes(path).as_ref())
}
