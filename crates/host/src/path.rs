//! Paths as bytes; on Unix these are the same.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use bstr::BString;

/// Returns the bytes of a path.
#[must_use]
pub fn path_bytes(path: &Path) -> BString {
    path.as_os_str().as_bytes().into()
}

/// Returns the path of some bytes.
#[must_use]
pub fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

/// Returns a name with its ASCII letters in the other case.
pub(crate) fn in_other_case(name: &[u8]) -> Vec<u8> {
    name.iter().map(|byte| if byte.is_ascii_alphabetic() { byte ^ 0x20 } else { *byte }).collect()
}
