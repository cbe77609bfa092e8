//! Conversions between paths, arguments and bytes; on Unix these are the same.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use bstr::{BString, ByteSlice};

/// Returns the bytes of a path.
#[must_use]
pub fn path_bytes(path: &Path) -> BString {
    // On Unix a path is its bytes.
    <[u8]>::from_path(path).unwrap_or_default().into()
}

/// Returns the path of some bytes.
#[must_use]
pub fn path_of(bytes: &bstr::BStr) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

/// Returns the bytes of an argument.
pub fn bytes(text: &OsString) -> BString {
    // On Unix an OsString is its bytes.
    <[u8]>::from_os_str(text).unwrap_or_default().into()
}

/// Returns the directories of `--dirs`: each argument is a list as in `LD_LIBRARY_PATH`.
pub fn dirs_of(lists: &[impl AsRef<OsStr>]) -> Vec<PathBuf> {
    let elements = lists.iter().flat_map(|list| list.as_ref().as_bytes().split_str(":"));
    // An empty element is the current directory, which cannot be indexed.
    elements.filter(|element| element.starts_with(b"/")).map(|e| path_of(e.as_bstr())).collect()
}
