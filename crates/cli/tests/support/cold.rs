//! Files that are not in memory, and the records of the pages that starts use.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use becalm_host::pages::FileState;
use becalm_host::pages::resident::{self, Residency};
use becalm_testing::skip;
use rustix::fs::{Advice, fadvise};
use serde_json::{Value, json};

use super::store::text;

/// Drops a file from memory.
pub fn evict(path: &Path) {
    let file = File::open(path).expect("is there");
    file.sync_all().expect("written");
    fadvise(&file, 0, None, Advice::DontNeed).expect("dropped");
}

/// Looks at a page. The kernel reads a page that was looked at, so a test looks at each page once.
pub fn residency(path: &Path, page: u64) -> Residency {
    resident::of(&File::open(path).expect("is there"), page)
}

/// Drops a file of more than 250 pages from memory. False on a file system that is memory.
pub fn is_evicted(path: &Path) -> bool {
    evict(path);
    let is_out = residency(path, 250) == Residency::OnDisk;
    if !is_out {
        skip("the scratch directory is in memory");
    }
    is_out
}

/// Returns the files with this ending that becalm keeps for the programs of a user.
pub fn kept(home: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(home.join(".cache/becalm/programs")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| text(path).ends_with(ending)).collect()
}

/// Returns the lines of a record.
pub fn lines(record: &Path) -> Vec<Value> {
    let text = fs::read_to_string(record).expect("a record");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Returns a line of a record for the first `pages` pages of a file.
pub fn line(path: &Path, pages: u64) -> Value {
    let facts = path.symlink_metadata().expect("is there");
    let FileState { inode, size, changed } = FileState::of(&facts);
    json!({"path": text(path), "inode": inode, "size": size, "changed": [changed.0, changed.1],
           "ranges": [[0, pages, 3]]})
}
