//! Files that could not be processed.

use becalm_host::HostError;
use bstr::BString;
use serde::Serialize;
use thiserror::Error;

use crate::escape::shown;
use crate::json::lossy;
use crate::words::words_of_host;

/// A file that could not be processed, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Error)]
#[error("{}: {reason}", shown(path.as_ref()))]
pub struct Problem {
    /// The file, as it was named.
    #[serde(serialize_with = "lossy")]
    pub path: BString,
    /// The reason.
    pub reason: String,
}

impl Problem {
    /// Makes a problem of a file.
    pub fn new(path: impl Into<BString>, reason: impl ToString) -> Self {
        Self { path: path.into(), reason: reason.to_string() }
    }
}

impl From<&HostError> for Problem {
    fn from(error: &HostError) -> Self {
        let (path, reason) = words_of_host(error);
        Self { path, reason }
    }
}

/// The path does not exist in the assumed root.
#[derive(Debug, Error)]
#[error("{}", words_of_host(.0).1)]
pub struct NoPlace(#[from] HostError);
