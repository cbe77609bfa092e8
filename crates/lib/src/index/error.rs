//! The reasons why an index cannot be read, made or written.

use std::error::Error as StdError;
use std::io;
use std::path::{Path, PathBuf};

use becalm_core::closure::ClosureError;
use becalm_core::index::{EmbedError, EncodeError};
use becalm_host::path_table::PathTableError;
use becalm_host::write::WriteError;
use thiserror::Error;

use crate::index::trust::Untrusted;
use crate::path::path_of;

/// The reason why an index cannot be read, made or written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum IndexError {
    /// A file or folder cannot be read or written.
    #[error("{}", .path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// Another user may have written the index.
    #[error(transparent)]
    Untrusted(#[from] Untrusted),
    /// The file is no index, or a damaged one.
    #[error("{}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The module in an index is not as becalm wrote it.
    #[error("the index is damaged: its module's check does not fit")]
    Module,
    /// The start of a program cannot be predicted.
    #[error(transparent)]
    Program(ClosureError),
    /// A reason for which there is no index.
    #[error("{0}")]
    Refused(String),
    /// No object has a loader.
    #[error("nothing to index: no ELF object with a loader")]
    Nothing,
    /// The paths of a store cannot be listed.
    #[error(transparent)]
    Paths(#[from] PathTableError),
    /// The index exceeds a limit of the format.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The table does not fit the module.
    #[error(transparent)]
    Embed(#[from] EmbedError),
    /// A file beside the index cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl From<ClosureError> for IndexError {
    fn from(error: ClosureError) -> Self {
        match error {
            ClosureError::Open { path, errno } => {
                let source = io::Error::from_raw_os_error(errno.0);
                Self::Io { path: path_of(path.as_ref()), source }
            }
            error => Self::Program(error),
        }
    }
}

impl IndexError {
    /// Returns an error of the system about a path.
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        |source| Self::Io { path: path.into(), source }
    }

    /// Returns the error for an index that `LD_AUDIT` cannot name: the loader splits its value at colons and
    /// replaces tokens in it.
    pub(crate) fn no_name(path: &Path) -> Self {
        let path = path.display();
        Self::Refused(format!("{path}: LD_AUDIT cannot name a path with a colon or a dollar sign"))
    }

    /// Returns an error for damaged content of a file.
    pub(crate) fn damaged<E: StdError + Send + Sync + 'static>(
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(E) -> Self {
        |error| Self::Damaged { path: path.into(), source: Box::new(error) }
    }
}
