//! Requests pages of many files at once, before a program asks for them.

use std::fs::File;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use rustix::fs::{Advice, Dir, fadvise};
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;

use super::{FileState, PAGE, open, open_directory};
use crate::threads::in_threads;

/// Threads that open files and request pages. Each waits for directories, inodes and block lists.
const THREADS: usize = 32;
/// Size of their stacks.
const STACK: usize = 64 * 1024;
/// Bytes of one request: the kernel shortens a request to the larger of the read-ahead and the largest
/// transfer of the device (`force_page_cache_ra` of Linux mm/readahead.c), which is seldom less.
const REQUEST: u64 = 128 * 1024;

/// Ranges of a file to be read, in pages, or a directory to be listed.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The path.
    pub path: PathBuf,
    /// The state in which the ranges were recorded.
    pub state: FileState,
    /// First page and number of pages of each range.
    pub ranges: Vec<(u64, u64)>,
    /// True if it is a directory: its entries are read, whatever its state.
    pub is_directory: bool,
}

/// The extent of a request.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of bytes.
    pub bytes: u64,
    /// Waits until the pages are in memory; otherwise they are only requested.
    pub wait: bool,
    /// After this time nothing more is requested.
    pub until: Option<Instant>,
}

/// Counts of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requested {
    /// Files whose pages were requested.
    pub files: usize,
    /// Bytes of these pages.
    pub bytes: u64,
    /// Files that are missing, cannot be opened or have changed.
    pub skipped: usize,
}

/// Requests the pages of files, in order, with many threads. Opens regular files and
/// directories only.
#[must_use]
pub fn request(wanted: &[Wanted], limits: &Limits) -> Requested {
    let done = Mutex::new(Requested::default());
    in_threads(wanted.len(), THREADS.min(wanted.len()), STACK, |at| {
        let is_over = limits.until.is_some_and(|until| Instant::now() > until);
        !is_over && request_one(&wanted[at], limits, &done)
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Requests the pages of a file, or lists a directory. Returns false if the limit is reached.
fn request_one(wanted: &Wanted, limits: &Limits, done: &Mutex<Requested>) -> bool {
    if wanted.is_directory {
        let entries = open_directory(&wanted.path).ok().and_then(|it| Dir::new(it).ok());
        entries.into_iter().flatten().take_while(Result::is_ok).for_each(drop);
        return true;
    }
    let done = || done.lock().unwrap_or_else(PoisonError::into_inner);
    let is_as_recorded =
        |file: &File| file.metadata().is_ok_and(|facts| FileState::of(&facts) == wanted.state);
    let Some(file) = open(&wanted.path).ok().filter(is_as_recorded) else {
        done().skipped += 1;
        return true;
    };
    done().files += 1;
    for &(first, count) in &wanted.ranges {
        let (mut at, length) = (first * PAGE, count * PAGE);
        let end = at.saturating_add(length).min(wanted.state.size.next_multiple_of(PAGE));
        while at < end {
            let bytes = (end - at).min(REQUEST);
            let mut done = done();
            if done.bytes + bytes > limits.bytes {
                return false;
            }
            done.bytes += bytes;
            drop(done);
            let _ = fadvise(&file, at, NonZeroU64::new(bytes), Advice::WillNeed);
            if limits.wait {
                let mut buffer = vec![0; bytes as usize];
                // A page that cannot be read is read, or reported, by the program.
                let _ = file.read_at(&mut buffer, at);
            }
            at += bytes;
        }
    }
    true
}
