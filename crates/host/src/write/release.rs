//! Closes replaced files in other threads.
//!
//! Closing the last descriptor of a file without a name frees its blocks. This may wait for the
//! disk (ext4 mounted with `discard` reports each freed block to it). Several threads wait at the
//! same time while the next batch is prepared.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// Number of threads that wait for the disk.
const THREADS: usize = 8;
/// Up to this number of files are closed in the calling thread.
const FEW: usize = 8;

/// Closes the files of one batch while the next one is prepared.
#[derive(Default)]
pub(super) struct Release(Mutex<Option<JoinHandle<()>>>);

impl Release {
    /// Starts to close `files`. First it waits until the previous files are closed, so that at most
    /// two batches are open.
    pub(super) fn close(&self, files: Vec<Arc<OwnedFd>>) {
        if files.len() <= FEW {
            return;
        }
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        wait(&mut running);
        // If no thread can be started, dropping the closure closes the files here.
        *running = thread::Builder::new().spawn(move || close_all(files)).ok();
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        wait(self.0.get_mut().unwrap_or_else(PoisonError::into_inner));
    }
}

fn wait(running: &mut Option<JoinHandle<()>>) {
    if let Some(thread) = running.take() {
        // The thread has no code that can panic.
        let _ = thread.join();
    }
}

fn close_all(mut files: Vec<Arc<OwnedFd>>) {
    let share = files.len().div_ceil(THREADS);
    thread::scope(|scope| {
        while files.len() > share {
            let part = files.split_off(files.len() - share);
            let _ = thread::Builder::new().spawn_scoped(scope, move || drop(part));
        }
        drop(files);
    });
}
