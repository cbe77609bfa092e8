//! Keeps tracer and program on one processor while the program starts.
//!
//! Each lookup stops twice, and each stop switches from program to tracer and back. A switch
//! between processors costs several times as much as one on the same processor. Tracer and program
//! never run at the same time, so sharing a processor delays neither.
//!
//! The program must not notice. While it reads its CPU affinity, both get their original affinity
//! back. Sharing ends if the program sets its affinity, creates a thread or a process, or opens a
//! file named `status` (`/proc/self/status` shows the affinity). It also ends at the first lookup
//! after [`LIMIT`], when the start is over.

use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

use super::sys::Pid;

/// The longest time for which tracer and program share a processor.
const LIMIT: Duration = Duration::from_secs(2);

/// Keeps this thread and a child on one processor until it is dropped.
#[derive(Debug)]
pub(super) struct SharedCpu {
    /// The affinity of the tracer without sharing.
    pub(super) tracer: CpuSet,
    /// A process on the same processor, and its affinity without sharing. If it is forked after
    /// [`SharedCpu::begin`], that of the tracer.
    pub(super) child: Option<(Pid, CpuSet)>,
    /// The time at which sharing began.
    pub(super) since: Instant,
}

impl SharedCpu {
    /// Pins this thread to its current processor. A child forked later inherits that. Returns
    /// `None` if the affinity cannot be read or set.
    pub(super) fn begin() -> Option<SharedCpu> {
        let tracer = sched_getaffinity(None).ok()?;
        sched_setaffinity(None, &current_cpu()).ok()?;
        Some(SharedCpu { tracer, child: None, since: Instant::now() })
    }

    /// Returns true if sharing has lasted for [`LIMIT`].
    pub(super) fn is_over(&self) -> bool {
        self.since.elapsed() > LIMIT
    }

    /// Moves a process that runs elsewhere to this thread's processor. Sharing began at `since`.
    pub(super) fn move_here(child: Pid, since: Instant) -> Option<SharedCpu> {
        let id = rustix::process::Pid::from_raw(child)?;
        let mask = sched_getaffinity(Some(id)).ok()?;
        let mut shared_cpu = SharedCpu::begin()?;
        sched_setaffinity(Some(id), &current_cpu()).ok()?;
        (shared_cpu.child, shared_cpu.since) = (Some((child, mask)), since);
        Some(shared_cpu)
    }
}

/// Keeps a thread of this process off the processor of the calling thread, so that neither waits
/// for the other. If no other processor is allowed, nothing changes.
pub fn keep_off_this_processor(thread: rustix::process::Pid) {
    let Ok(mut mask) = sched_getaffinity(Some(thread)) else { return };
    // The caller may move to another processor right afterwards. That costs only time.
    mask.unset(sched_getcpu());
    if mask.count() > 0 {
        // A failure costs only time.
        let _ = sched_setaffinity(Some(thread), &mask);
    }
}

/// Returns the current processor as a set.
fn current_cpu() -> CpuSet {
    let mut current_cpu = CpuSet::new();
    current_cpu.set(sched_getcpu());
    current_cpu
}

impl Drop for SharedCpu {
    /// Gives both their original affinity back.
    fn drop(&mut self) {
        // Both calls may fail: the child may have ended, and a failure costs only time.
        if let Some((child, mask)) = &self.child {
            let _ = sched_setaffinity(rustix::process::Pid::from_raw(*child), mask);
        }
        let _ = sched_setaffinity(None, &self.tracer);
    }
}
