//! JSON documents: a report with its schema's name, byte strings as text.

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use bstr::BString;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize, Serializer};

pub use becalm_core::lossy::{lossy, lossy_list, lossy_option};

use crate::escape::shown_path;

/// A report of a command, which is one JSON document.
pub trait Report: Serialize {
    /// The document's schema, `becalm/<command>/<version>`.
    const SCHEMA: &'static str;
}

/// Names the schema of a report.
macro_rules! schema {
    ($report:ty, $name:literal) => {
        impl $crate::json::Report for $report {
            const SCHEMA: &'static str = $name;
        }
    };
}
pub(crate) use schema;

/// A report behind the name of its schema.
#[derive(Serialize)]
struct Document<'a, R> {
    schema: &'static str,
    #[serde(flatten)]
    report: &'a R,
}

/// Returns the JSON document of a report: one object on one line.
#[must_use]
pub fn document<R: Report>(report: &R) -> Vec<u8> {
    let mut bytes = as_json(&Document { schema: R::SCHEMA, report });
    bytes.push(b'\n');
    bytes
}

/// Reads a document from a file. `writer` is the command that writes such documents.
///
/// # Errors
/// Returns an error that names the file, if it cannot be read or has no such document.
pub fn read_file<R: Report + DeserializeOwned>(path: &Path, writer: &str) -> anyhow::Result<R> {
    #[derive(Deserialize)]
    struct Head {
        schema: String,
    }
    let name = shown_path(path);
    let text = fs::read(path).with_context(|| name.clone())?;
    let not_written = || format!("{name}: not what {writer} writes");
    let head: Head = serde_json::from_slice(&text).with_context(not_written)?;
    ensure!(head.schema == R::SCHEMA, "{name}: not of schema {}", R::SCHEMA);
    serde_json::from_slice(&text).with_context(not_written)
}

/// Returns a value as JSON.
#[must_use]
pub fn as_json(value: &impl Serialize) -> Vec<u8> {
    // Fails only for maps with keys that are not strings; there are none here.
    serde_json::to_vec(value).unwrap_or_else(|_| b"null".to_vec())
}

/// Returns the name of a value that serde writes as a string: a variant without fields.
#[must_use]
pub fn name(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        _ => String::new(),
    }
}

/// Serialises a string of the system as text.
pub fn lossy_os<S: Serializer>(value: &impl AsRef<OsStr>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&value.as_ref().to_string_lossy())
}

/// Serialises a string of the system that may be absent, as text or null.
pub fn lossy_os_option<S: Serializer>(value: &Option<OsString>, to: S) -> Result<S::Ok, S::Error> {
    value.as_ref().map(|value| value.to_string_lossy()).serialize(to)
}

/// Serialises a value by its display.
pub fn displayed<S: Serializer>(value: &impl Display, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

/// Serialises a value that may be absent, by its display or as null.
pub fn displayed_option<T: Display, S: Serializer>(
    value: &Option<T>,
    to: S,
) -> Result<S::Ok, S::Error> {
    value.as_ref().map(ToString::to_string).serialize(to)
}

/// As [`lossy_list`], for a list that may be absent.
pub fn lossy_list_option<S: Serializer>(
    values: &Option<Vec<BString>>,
    to: S,
) -> Result<S::Ok, S::Error> {
    match values {
        Some(values) => lossy_list(values, to),
        None => to.serialize_none(),
    }
}
