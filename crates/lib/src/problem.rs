//! Files that could not be worked on.

use bstr::BString;
use serde::Serialize;

use crate::json::lossy;

/// A file that could not be worked on, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The file, as it was named.
    #[serde(serialize_with = "lossy")]
    pub path: BString,
    /// The reason, in words.
    pub reason: String,
}
