//! Errors of indexes that callers tell from others, and those with a text that several files need.

use std::error::Error as StdError;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Error, anyhow};
use becalm_core::closure::ClosureError;
use becalm_host::HostError;
use thiserror::Error;

use crate::path::path_of;
use crate::words::words_of_interpreter;

/// The file is no index, or a damaged one.
#[derive(Debug, Error)]
#[error("{}", .path.display())]
pub struct Damaged {
    path: PathBuf,
    source: Box<dyn StdError + Send + Sync>,
}

/// Returns an error for damaged content of a file.
pub(crate) fn damaged<E>(path: impl Into<PathBuf>) -> impl FnOnce(E) -> Damaged
where
    E: Into<Box<dyn StdError + Send + Sync>>,
{
    |error| Damaged { path: path.into(), source: error.into() }
}

/// The loader of a program is unknown.
#[derive(Debug, Error)]
#[error("{}: {}", .program.display(), words_of_interpreter(.error))]
pub(crate) struct UnknownLoader {
    pub(crate) program: PathBuf,
    pub(crate) error: HostError,
}

/// Returns the error of a start that cannot be predicted.
pub(crate) fn of_closure(error: ClosureError) -> Error {
    match error {
        ClosureError::Open { path, errno } => {
            let error = Error::new(io::Error::from_raw_os_error(errno.0));
            error.context(path_of(path.as_ref()).display().to_string())
        }
        error => error.into(),
    }
}

/// Returns the error for an index that `LD_AUDIT` cannot name: the loader splits its value at colons and
/// replaces tokens in it.
pub(crate) fn no_name(path: &Path) -> Error {
    anyhow!("{}: LD_AUDIT cannot name a path with a colon or a dollar sign", path.display())
}
