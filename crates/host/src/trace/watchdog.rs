//! Kills a program at its time limit.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::sys::Pid;
use crate::child::kill_tree;

/// A thread that waits for the time limit.
#[derive(Debug)]
pub(super) struct Watchdog {
    limit: Duration,
    /// Dropped when the program has ended.
    running: Sender<()>,
    /// True if it killed the program.
    thread: Option<JoinHandle<bool>>,
}

impl Watchdog {
    /// Kills `pid` and its descendants after the limit. If no thread can be started, there is no
    /// limit.
    pub(super) fn start(pid: Pid, limit: Duration) -> Self {
        let (running, ended) = channel::<()>();
        let watch = move || {
            let fired = ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
            if fired {
                kill_tree(pid.unsigned_abs());
            }
            fired
        };
        let thread = thread::Builder::new().name("watchdog".to_owned()).spawn(watch).ok();
        Self { limit, running, thread }
    }

    /// Ends the wait. Returns the limit as an error if it was reached.
    pub(super) fn end(self) -> Result<(), Duration> {
        drop(self.running);
        let fired = self.thread.is_some_and(|thread| thread.join().unwrap_or(false));
        if fired { Err(self.limit) } else { Ok(()) }
    }
}
