//! The user who runs the chore.

use std::fs;
use std::os::unix::fs::MetadataExt;

/// True for root.
pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|facts| facts.uid() == 0)
}
