//! The wait for a file system's clock: an index does not trust files that changed a moment ago.

use std::path::PathBuf;
use std::time::Duration;

use becalm_host::index_store::OsFingerprints;

use crate::path::path_bytes;

/// Waits until recently changed files and directories are older than the granularity of the clock,
/// at most three seconds.
pub fn let_settle<'a>(files: impl Iterator<Item = &'a PathBuf>) {
    const STEP: Duration = Duration::from_millis(20);
    const MOST: u32 = 150;
    let is_settled = |file: &PathBuf| {
        let fingerprints = OsFingerprints::default();
        fingerprints.is_settled(path_bytes(file).as_ref()).is_ok_and(|is_settled| is_settled)
    };
    let mut recent: Vec<&PathBuf> = files.collect();
    for _ in 0..MOST {
        recent.retain(|file| !is_settled(file));
        if recent.is_empty() {
            return;
        }
        std::thread::sleep(STEP);
    }
}

/// Returns the stores, and the directories below them that changed in the last seconds, of the first
/// ten thousand: packages before what is in them.
pub fn recent_directories(stores: &[PathBuf]) -> Vec<PathBuf> {
    const MOST: usize = 10_000;
    const RECENT: Duration = Duration::from_secs(3);
    let mut all = stores.to_vec();
    let mut at = 0;
    while at < all.len() && all.len() < MOST {
        let entries = all[at].read_dir().into_iter().flatten().flatten();
        let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        all.extend(dirs.map(|entry| entry.path()));
        at += 1;
    }
    all.truncate(MOST);
    let is_recent = |dir: &PathBuf| {
        let changed = dir.metadata().and_then(|facts| facts.modified());
        changed.is_ok_and(|time| time.elapsed().map_or(true, |age| age < RECENT))
    };
    let below = all.split_off(stores.len().min(all.len()));
    all.extend(below.into_iter().filter(is_recent));
    all
}
