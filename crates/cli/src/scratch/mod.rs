//! A scratch directory that is gone at the end, however the end comes: an error, an
//! interrupt.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use becalm_host::child::kill_descendants;
use becalm_lib::words::words;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tempfile::TempDir;

use crate::exit_code::ExitStatus;

/// The directory.
pub(crate) struct Scratch {
    dir: Option<TempDir>,
    path: PathBuf,
    interrupted: Arc<AtomicBool>,
}

impl Scratch {
    /// A new directory below that of temporary files (`TMPDIR`). From here on a signal that
    /// ends the process kills what it started and removes the directory first.
    ///
    /// # Errors
    /// It cannot be made, or signals cannot be watched.
    pub(crate) fn new() -> Result<Self> {
        // Before there is a directory that a signal could leave behind. The thread that ends the
        // process is told of each signal that comes from here on; the flag is for the others.
        let all = [SIGINT, SIGTERM, SIGHUP];
        let mut signals = Signals::new(all)?;
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in all {
            signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
        }
        let place = std::env::temp_dir();
        let dir = tempfile::Builder::new().prefix("becalm-").tempdir_in(&place);
        let dir = dir.map_err(|error| {
            anyhow!("no scratch directory in {}: {}", place.display(), words(&error))
        })?;
        let path = dir.path().canonicalize()?;
        let of_thread = path.clone();
        std::thread::spawn(move || {
            if let Some(signal) = signals.forever().next() {
                give_up(&of_thread, signal);
            }
        });
        Ok(Self { dir: Some(dir), path, interrupted })
    }

    /// Its path, without links.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The outcome of the work, and the directory removed. Work that failed because a signal
    /// killed what it had started has no outcome: the signal ends the process.
    pub(crate) fn done<T>(mut self, outcome: Result<T>) -> Result<T> {
        while self.interrupted.load(Ordering::Relaxed) {
            std::thread::park_timeout(Duration::from_secs(1));
        }
        if let Some(dir) = self.dir.take() {
            dir.close().with_context(|| format!("{}: cannot be removed", self.path.display()))?;
        }
        outcome
    }
}

/// The end that a signal asks for.
fn give_up(dir: &Path, signal: i32) -> ! {
    // What still runs may start and write more meanwhile.
    for _ in 0..100 {
        kill_descendants();
        if fs::remove_dir_all(dir).is_ok() || !dir.exists() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let status = ExitStatus::Signal(u8::try_from(signal).unwrap_or(u8::MAX));
    std::process::exit(status.code().into())
}
