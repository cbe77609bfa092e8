//! Drops the kernel's caches of files, directories and absent names.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

use rustix::fs::{Advice, fadvise};

use super::error::{BenchError, SWITCH};
use crate::pages;

/// Drops clean pages of the page cache, and the cached directory entries and inodes. This affects
/// the whole machine, because the kernel has no narrower switch. If that is not allowed, as for an
/// ordinary user and in most containers, drops the pages of `files` alone; those that a process has
/// mapped stay.
///
/// # Errors
/// Returns an error if neither is possible.
pub fn drop(files: &[PathBuf]) -> Result<(), BenchError> {
    let switch = OpenOptions::new().write(true).open(SWITCH);
    if switch.is_err() && !files.is_empty() {
        for file in files.iter().filter_map(|path| pages::open(path).ok()) {
            // Pages that cannot be dropped stay in memory.
            let _ = fadvise(&file, 0, None, Advice::DontNeed);
        }
        return Ok(());
    }
    let mut switch = switch.map_err(BenchError::Caches)?;
    // Dirty pages cannot be dropped, so they are written first.
    rustix::fs::sync();
    switch.write_all(b"3\n").map_err(BenchError::Caches)
}

/// True if the caches of the whole machine can be dropped.
#[must_use]
pub fn are_droppable() -> bool {
    OpenOptions::new().write(true).open(SWITCH).is_ok()
}
