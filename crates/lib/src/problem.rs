//! Files that could not be worked on.

use becalm_host::HostError;
use bstr::BString;
use serde::Serialize;
use thiserror::Error;

use crate::json::lossy;
use crate::words::words_of_host;

/// A file that could not be worked on, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The file, as it was named.
    #[serde(serialize_with = "lossy")]
    pub path: BString,
    /// The reason, in words.
    pub reason: String,
}

/// The assumed root has no such place.
#[derive(Debug, Error)]
#[error("{}", words_of_host(.0).1)]
pub struct NoPlace(#[from] HostError);
