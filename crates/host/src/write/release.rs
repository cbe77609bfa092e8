//! Closing replaced files beside the main path.
//!
//! The last descriptor of a file without a name is what keeps its blocks; closing it makes
//! the file system free them, which may mean waiting for the disk once a file (ext4 mounted
//! with `discard`, where the disk is told of each). Several threads wait at the same time,
//! while the next batch is prepared.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// Threads that wait for the disk.
const THREADS: usize = 8;
/// Up to so many files are closed at once where they are.
const FEW: usize = 8;

/// Closes the files of one batch while the next one is on its way.
#[derive(Default)]
pub(super) struct Release(Mutex<Option<JoinHandle<()>>>);

impl Release {
    /// Closes `files` by and by; first waits until those given before are closed, so that no
    /// more than two batches are open.
    pub(super) fn close(&self, files: Vec<Arc<OwnedFd>>) {
        if files.len() <= FEW {
            return;
        }
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        wait(&mut running);
        // Where there can be no thread, dropping the closure closes the files here.
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
        // It does nothing that could panic.
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
