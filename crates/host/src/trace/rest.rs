//! Serves the processes that are left at the end of a run.

use std::marker::PhantomData;

use super::Exit;
use super::signals::Forwarding;
use super::stopped::{self, Until, Waited};
use super::sys::Pid;

/// The processes that still need the tracer at the end of a run: processes that outlived the
/// program and have its filter, or the program itself if it is no longer traced. Call
/// [`Rest::finish`] after printing the report, in the thread of the run. If a `Rest` is dropped,
/// lookups of the filtered processes fail.
#[derive(Debug)]
pub struct Rest {
    program: Option<Pid>,
    /// `None` if signals are left to the caller.
    forwarding: Option<Forwarding>,
    // ptrace accepts requests only from the thread that attached.
    _thread: PhantomData<*const ()>,
}

impl Rest {
    /// Creates the rest of a run: filtered processes, or a program that runs without the tracer.
    pub(super) fn new(program: Option<Pid>, forwarding: Option<Forwarding>) -> Rest {
        Rest { program, forwarding, _thread: PhantomData }
    }

    /// Serves the processes until the last one has ended. Returns the program's end if it was still
    /// running.
    #[must_use]
    pub fn finish(self) -> Option<Exit> {
        if let (None, Some(forwarding)) = (self.program, &self.forwarding) {
            forwarding.program_ended();
        }
        // `ECHILD` ends the loop: no traced process is left.
        while let Ok(waited) = stopped::wait(self.program) {
            match waited {
                Waited::Stop(task, why) => task.pass(why, Until::Filter),
                Waited::End(pid, end) if Some(pid) == self.program => {
                    return Some(end);
                }
                Waited::End(..) => {}
            }
        }
        None
    }
}
