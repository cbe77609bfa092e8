//! Tasks and processes that the tracer knows of.

use std::borrow::Cow;
use std::time::Instant;

use becalm_core::observe::Lookup;

use super::Phase;
use super::calibrate::Cost;
use super::exec::Breakpoint;
use super::sys::Pid;

/// A thread of the program.
#[derive(Debug, Default)]
pub(super) struct Task {
    /// Its process; `None` until the thread's first stop.
    pub(super) process: Option<Pid>,
    pub(super) call: Option<Pending>,
    /// True after the stop of the task that created it.
    pub(super) announced: bool,
}

/// A counted process.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) image: usize,
    pub(super) breakpoint: Option<Breakpoint>,
}

/// A call that has begun.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) name: Cow<'static, str>,
    pub(super) image: usize,
    pub(super) phase: Phase,
    pub(super) lookup: Option<Lookup>,
    pub(super) cost: Cost,
    pub(super) began: Instant,
}
