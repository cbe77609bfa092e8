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
    limit: Duration,
    /// Dropped when the program has ended.
    running: Sender<()>,
    thread: Option<JoinHandle<Fired>>,
}

/// The reason for which the program was killed.
#[derive(Clone, Copy, Debug)]
enum Fired {
    /// It ended by itself.
    No,
    /// It was idle since this moment.
    Idle(Instant),
    /// It reached the limit.
    Limit,
}

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
                    return Fired::No;
                }
                if let Some(since) = idle.as_mut().and_then(Watch::look) {
                    break Fired::Idle(since);
                }
                if began.elapsed() >= limit {
                    break Fired::Limit;
                }
            };
            kill_tree(pid.unsigned_abs());
            fired
        };
        let thread = thread::Builder::new().name("watchdog".to_owned()).spawn(watch).ok();
        Self { limit, running, thread }
    }

    /// Ends the wait. Returns the moment since which the program was idle, and the limit as an error if it was
    /// reached.
    pub(super) fn end(self) -> Result<Option<Instant>, Duration> {
        drop(self.running);
        match self.thread.map(|thread| thread.join().unwrap_or(Fired::No)) {
            Some(Fired::Limit) => Err(self.limit),
            Some(Fired::Idle(since)) => Ok(Some(since)),
            Some(Fired::No) | None => Ok(None),
        }
    }
}
