//! The wait for a file system's clock: an index does not trust files that changed a moment ago.

use std::path::PathBuf;
use std::time::Duration;

use becalm_host::index_store::OsFingerprints;

use crate::path::path_bytes;

/// Waits until recently changed files and directories are older than the granularity of the clock,
/// at most three seconds.
pub fn let_settle<'a>(files: impl Iterator<Item = &'a PathBuf> + Clone) {
    const STEP: Duration = Duration::from_millis(20);
    const MOST: u32 = 150;
    let is_settled = |file: &PathBuf| {
        let fingerprints = OsFingerprints::default();
        fingerprints.is_settled(path_bytes(file).as_ref()).is_ok_and(|is_settled| is_settled)
    };
    for _ in 0..MOST {
        if files.clone().all(is_settled) {
            return;
        }
        std::thread::sleep(STEP);
    }
}
