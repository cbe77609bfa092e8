//! JSON documents: byte strings as text, and the files that could not be worked on.

use bstr::{BString, ByteSlice};
use serde::{Serialize, Serializer};

use crate::targets::Problem;

/// A file that could not be worked on, and the reason.
#[derive(Serialize)]
pub struct ErrorJson<'a> {
    #[serde(serialize_with = "lossy")]
    path: &'a BString,
    reason: &'a str,
}

/// What could not be worked on.
pub fn errors(problems: &[Problem]) -> Vec<ErrorJson<'_>> {
    problems.iter().map(|p| ErrorJson { path: &p.path, reason: &p.reason }).collect()
}

/// A value as JSON.
#[must_use]
pub fn as_json(value: &impl Serialize) -> Vec<u8> {
    // Fails only for maps with keys that are no strings, and there are no maps here.
    serde_json::to_vec(value).unwrap_or_else(|_| b"null".to_vec())
}

/// A byte string as text.
pub fn lossy<S: Serializer>(value: &BString, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&value.to_str_lossy())
}

/// A byte string that may be absent, as text or null.
pub fn lossy_option<S: Serializer>(value: &Option<BString>, to: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => lossy(value, to),
        None => to.serialize_none(),
    }
}
