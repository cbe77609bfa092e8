//! The reasons why programs are not switched on or off.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use becalm_host::write::WriteError;
use thiserror::Error;

use crate::index::error::IndexError;
use crate::index::trust::Untrusted;
use crate::run::error::RunError;

/// The reason why programs are not switched on or off.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OnError {
    /// The environment has no home directory.
    #[error("no home directory for the folder of links")]
    NoHome,
    /// The folder's path cannot be in the variables.
    #[error("{}: the path of the folder has a character that PATH or a shell would interpret", .0.display())]
    NoName(PathBuf),
    /// No starter is built in for this machine.
    #[error("no starter for {0} is built in")]
    NoStarter(&'static str),
    /// A named program cannot be found or read.
    #[error(transparent)]
    Program(#[from] RunError),
    /// A named program gains nothing from an index.
    #[error("{}: {why}", .name.to_string_lossy())]
    NotFit {
        /// The name.
        name: OsString,
        /// The reason.
        why: &'static str,
    },
    /// A name is not one of the programs that are switched on.
    #[error("{}: not switched on", .0.to_string_lossy())]
    NotOn(OsString),
    /// The record of what is switched on cannot be read.
    #[error("{}: damaged; becalm off removes all", .0.display())]
    Record(PathBuf),
    /// A file cannot be read.
    #[error("{}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The folder is on a full disk.
    #[error("{}: {free} bytes are free", .path.display())]
    NoRoom {
        /// The directory.
        path: PathBuf,
        /// The bytes that are free.
        free: u64,
    },
    /// Another becalm has been at work for too long.
    #[error("{}: another becalm has been at work on it for minutes", .0.display())]
    Busy(PathBuf),
    /// The index cannot be made.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// Another user could have written something there.
    #[error(transparent)]
    Untrusted(#[from] Untrusted),
    /// A file cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl OnError {
    /// Returns an error of the system about a path.
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        |source| Self::Io { path: path.into(), source }
    }
}
