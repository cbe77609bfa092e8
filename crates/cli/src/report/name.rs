//! The short name of a program.

use std::path::Path;

use becalm_lib::escape::shown;
use becalm_lib::path::path_bytes;
use bstr::ByteSlice;

/// A path as it is told to the user.
pub(crate) fn name(path: &Path) -> String {
    shown(path_bytes(path).as_bstr())
}
