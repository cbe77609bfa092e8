//! A scratch directory that is removed at the end, also after an error or an interrupt.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fs, io};

use anyhow::{Context, Result};
use becalm_host::child::kill_descendants;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tempfile::TempDir;

/// The directory.
#[derive(Debug)]
pub struct Scratch {
    dir: Option<TempDir>,
    path: PathBuf,
    interrupted: Arc<AtomicBool>,
}

impl Scratch {
    /// Makes a new directory below that of temporary files (`TMPDIR`). From then on, a signal that
    /// ends the process first kills the child processes and removes the directory.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be made, or if signals cannot be watched.
    pub fn new() -> Result<Self> {
        let place = std::env::temp_dir();
        Self::below(&place).with_context(|| format!("no scratch directory in {}", place.display()))
    }

    fn below(place: &Path) -> io::Result<Self> {
        // Registered before the directory exists, so that no signal can leave it behind. The
        // thread that ends the process receives each signal from here on; the flag is for the
        // other threads.
        let all = [SIGINT, SIGTERM, SIGHUP];
        let mut signals = Signals::new(all)?;
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in all {
            signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
        }
        let dir = tempfile::Builder::new().prefix("becalm-").tempdir_in(place)?;
        let path = dir.path().canonicalize()?;
        let of_thread = path.clone();
        std::thread::spawn(move || {
            if let Some(signal) = signals.forever().next() {
                give_up(&of_thread, signal);
            }
        });
        Ok(Self { dir: Some(dir), path, interrupted })
    }

    /// Returns its path, without links.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the directory and returns the outcome of the work. If the work failed because a
    /// signal killed its child processes, there is no outcome: the signal ends the process.
    ///
    /// # Errors
    /// Returns an error if the work failed, or the directory cannot be removed.
    pub fn done<T>(mut self, outcome: Result<T>) -> Result<T> {
        while self.interrupted.load(Ordering::Relaxed) {
            std::thread::park_timeout(Duration::from_secs(1));
        }
        if let Some(dir) = self.dir.take() {
            dir.close().with_context(|| format!("{}: cannot be removed", self.path.display()))?;
        }
        outcome
    }
}

/// Ends the process as the signal asks.
fn give_up(dir: &Path, signal: i32) -> ! {
    // Processes that still run may start others and write more files meanwhile.
    for _ in 0..100 {
        kill_descendants();
        if fs::remove_dir_all(dir).is_ok() || !dir.exists() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    // As shells report it.
    std::process::exit(128 + signal)
}
