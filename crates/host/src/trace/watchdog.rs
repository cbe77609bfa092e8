//! Kills a program at its time limit, or once it is idle.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_setaffinity};

use super::sys::Pid;
use crate::child::kill_tree;
use crate::idle::{STEP, Watch};

/// A thread that waits for the time limit.
#[derive(Debug)]
pub(super) struct Watchdog {
    /// Dropped when the program has ended.
    running: Sender<()>,
    thread: Option<JoinHandle<Fired>>,
}

/// The moment since which the program was idle when it was killed; `None` if it ended by itself. The limit if it
/// was killed there.
type Fired = Result<Option<Instant>, Duration>;

impl Watchdog {
    /// Kills `pid` and its descendants after the limit and, if `until_idle`, once they are idle. `affinity` is
    /// that of the thread, if not this one's. If no thread can be started, there is no limit.
    pub(super) fn start(
        pid: Pid,
        limit: Duration,
        until_idle: bool,
        affinity: Option<CpuSet>,
    ) -> Self {
        let (running, ended) = channel::<()>();
        let watch = move || {
            // A failure costs only time.
            let _ = affinity.map(|affinity| sched_setaffinity(None, &affinity));
            let began = Instant::now();
            let mut idle = until_idle.then(|| Watch::new(pid.unsigned_abs()));
            let fired = loop {
                let left = limit.saturating_sub(began.elapsed());
                let step = if idle.is_some() { left.min(STEP) } else { left };
                if ended.recv_timeout(step) != Err(RecvTimeoutError::Timeout) {
                    return Ok(None);
                }
                if let Some(since) = idle.as_mut().and_then(Watch::look) {
                    break Ok(Some(since));
                }
                if began.elapsed() >= limit {
                    break Err(limit);
                }
            };
            kill_tree(pid.unsigned_abs());
            fired
        };
        let thread = thread::Builder::new().name("watchdog".to_owned()).spawn(watch).ok();
        Self { running, thread }
    }

    /// Ends the wait. Returns the moment since which the program was idle, and the limit as an error if it was
    /// reached.
    pub(super) fn end(self) -> Fired {
        drop(self.running);
        self.thread.map_or(Ok(None), |thread| thread.join().unwrap_or(Ok(None)))
    }
}
