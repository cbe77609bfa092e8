//! Tracer and program on one processor while the program starts.
//!
//! Each lookup stops twice, and each stop hands over from program to tracer and back:
//! across processors that costs several times what it costs on one. The two never run at
//! the same time, so nothing is lost. The program must not notice: while it asks for its
//! processors, both may run where they might before; it ends when the program sets them, makes
//! a thread or a process, or looks for a `status` (of `/proc`, which names them); and at the first
//! lookup after [`LIMIT`], when it is no start any more.

use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

use super::sys::Pid;

/// How long a start may last.
const LIMIT: Duration = Duration::from_secs(2);

/// While it lives, this thread and a child stay on one processor.
#[derive(Debug)]
pub(super) struct Together {
    tracer: CpuSet,
    child: Option<(Pid, CpuSet)>,
    since: Instant,
}

impl Together {
    /// Keeps this thread where it is now; a child that is forked inherits that. `None`
    /// where it cannot be.
    pub(super) fn begin() -> Option<Together> {
        let tracer = sched_getaffinity(None).ok()?;
        sched_setaffinity(None, &here()).ok()?;
        Some(Together { tracer, child: None, since: Instant::now() })
    }

    /// `child` was forked after [`Together::begin`].
    pub(super) fn with(mut self, child: Pid) -> Together {
        self.child = Some((child, self.tracer));
        self
    }

    /// When it began.
    pub(super) fn since(&self) -> Instant {
        self.since
    }

    /// As if it had begun then.
    pub(super) fn begun(mut self, since: Instant) -> Together {
        self.since = since;
        self
    }

    /// True once it has lasted long enough.
    pub(super) fn is_over(&self) -> bool {
        self.since.elapsed() > LIMIT
    }

    /// Brings a process that runs elsewhere here.
    pub(super) fn bring(child: Pid) -> Option<Together> {
        let id = rustix::process::Pid::from_raw(child)?;
        let mask = sched_getaffinity(Some(id)).ok()?;
        let mut together = Together::begin()?;
        sched_setaffinity(Some(id), &here()).ok()?;
        together.child = Some((child, mask));
        Some(together)
    }
}

/// Keeps a thread of this process off the processor that the calling thread runs on, so that
/// neither waits for the other; where it may run on no other, it stays as it is.
pub fn keep_off_this_processor(thread: rustix::process::Pid) {
    let Ok(mut mask) = sched_getaffinity(Some(thread)) else { return };
    mask.unset(sched_getcpu());
    if mask.count() > 0 {
        // It is a matter of time alone.
        let _ = sched_setaffinity(Some(thread), &mask);
    }
}

/// The processor this runs on, alone.
fn here() -> CpuSet {
    let mut here = CpuSet::new();
    here.set(sched_getcpu());
    here
}

impl Drop for Together {
    /// Both may run again where they might before.
    fn drop(&mut self) {
        // A child that is gone needs no processor, and what was allowed before is now.
        if let Some((child, mask)) = &self.child {
            let _ = sched_setaffinity(rustix::process::Pid::from_raw(*child), mask);
        }
        let _ = sched_setaffinity(None, &self.tracer);
    }
}

/// True for the file of `/proc` that names a process's processors, by whatever way it is looked
/// for.
pub(super) fn names_status(path: &[u8]) -> bool {
    path.rsplit(|byte| *byte == b'/').next() == Some(b"status")
}
