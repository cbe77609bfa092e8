//! Threads that keep a disk busy beside a measurement.

use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use anyhow::{Context, Result};
use becalm_host::pages::PAGE;
use nix::fcntl::OFlag;

const SIZE: usize = PAGE as usize;

/// Threads that read pages of a file from the disk, not from memory, until this is dropped.
pub(super) struct Busy {
    reads: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
}

impl Busy {
    /// Starts the threads.
    ///
    /// # Errors
    /// Returns an error if the file system cannot read without the page cache.
    pub(super) fn start(threads: usize, path: &Path) -> Result<Self> {
        let busy = Self { reads: Arc::default(), is_over: Arc::default() };
        for seed in 1..=threads as u64 {
            let flags = OFlag::O_DIRECT.bits();
            let file = File::options().read(true).custom_flags(flags).open(path);
            let file = file.with_context(|| path.display().to_string())?;
            let pages = file.metadata()?.len() / PAGE;
            let (reads, is_over) = (busy.reads.clone(), busy.is_over.clone());
            thread::spawn(move || {
                // Direct reads need an aligned buffer.
                let mut bytes = vec![0; 2 * SIZE];
                let from = bytes.as_ptr().align_offset(SIZE);
                let mut number = seed;
                while !is_over.load(Ordering::Relaxed) {
                    // Knuth's multiplier of a linear congruential generator.
                    number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let at = (number >> 33) % pages.max(1) * PAGE;
                    if file.read_at(&mut bytes[from..from + SIZE], at).is_err() {
                        return;
                    }
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        Ok(busy)
    }

    /// Returns the number of reads so far.
    pub(super) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}
