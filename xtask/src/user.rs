//! The user who runs the chore.

use std::fs;
use std::os::unix::fs::MetadataExt;

/// The user and group ID of nobody: a program that runs as nobody can harm nothing.
pub(crate) const NOBODY: u32 = 65534;

/// True for root.
pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|facts| facts.uid() == 0)
}
