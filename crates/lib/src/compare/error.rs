//! The reasons why a program cannot be examined or copied.

use std::borrow::Cow;
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
        reason: Cow<'static, str>,
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

impl SubjectError {
    /// Returns the error of a program that cannot be compared.
    pub(super) fn refused(path: &Path, reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Program { path: path.to_owned(), reason: reason.into() }
    }

    /// Converts an error of the system about a file or directory.
    pub fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        |source| Self::Io { path: path.to_owned(), source }
    }
}

fn name(path: &Path) -> String {
    shown(path_bytes(path).as_ref())
}
