//! Byte strings as text: bytes that are not UTF-8 become U+FFFD.

use bstr::{BString, ByteSlice};
use serde::{Deserialize, Deserializer, Serializer};

/// Serialises a byte string as text.
///
/// # Errors
/// Returns an error of the serializer.
pub fn lossy<S: Serializer>(value: &BString, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&value.to_str_lossy())
}

pub(crate) use self::lossy as serialize;

/// Reads a byte string from text.
///
/// # Errors
/// Returns an error of the deserializer.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<BString, D::Error> {
    String::deserialize(from).map(BString::from)
}

/// Serialises byte strings as a list of texts.
///
/// # Errors
/// Returns an error of the serializer.
pub fn lossy_list<S: Serializer>(values: &[BString], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(values.iter().map(|value| value.to_str_lossy()))
}

/// Serialises a byte string that may be absent, as text or null.
///
/// # Errors
/// Returns an error of the serializer.
pub fn lossy_option<S: Serializer>(value: &Option<BString>, to: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => lossy(value, to),
        None => to.serialize_none(),
    }
}
