//! Numbers and paths as words.

use std::path::Path;

/// Formats a number for a table.
pub(crate) fn grouped(number: usize) -> String {
    becalm_lib::words::grouped(number as u64)
}

/// Returns the context of an error about a file.
pub(crate) fn naming(path: &Path) -> impl Fn() -> String + Copy + '_ {
    move || path.display().to_string()
}
