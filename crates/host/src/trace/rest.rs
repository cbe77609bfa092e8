//! What is left when a run is over.

use std::marker::PhantomData;

use super::Exit;
use super::signals::HandingOn;
use super::stopped::{self, End, Until, Waited, Why};
use super::sys::Pid;

/// What is still to be looked after when a run is over: processes that outlived the
/// program (the filter is theirs too), or the program itself when it is no longer
/// watched. To be called after the report was given, in the thread of the run; dropping
/// it leaves filtered processes without an answer.
#[derive(Debug)]
pub struct Rest {
    program: Option<Pid>,
    handing_on: HandingOn,
    // Only the thread that traces may serve.
    _thread: PhantomData<*const ()>,
}

impl Rest {
    /// Processes with a filter, or a program that runs on by itself.
    pub(super) fn new(program: Option<Pid>, handing_on: HandingOn) -> Rest {
        Rest { program, handing_on, _thread: PhantomData }
    }

    /// Serves them until the last has ended; how the program ended, where that was open.
    #[must_use]
    pub fn finish(self) -> Option<Exit> {
        if self.program.is_none() {
            self.handing_on.program_ended();
        }
        let mut exit = None;
        while let Ok(waited) = stopped::wait(self.program) {
            match waited {
                Waited::Stop(task, Why::Signal(signal)) => task.resume(Until::Filter, signal),
                Waited::Stop(task, Why::Group(_)) => task.listen(),
                Waited::Stop(task, _) => task.resume(Until::Filter, 0),
                Waited::End(pid, end) if Some(pid) == self.program => {
                    exit = Some(match end {
                        End::Code(code) => Exit::Code(code),
                        End::Signal(signal) => Exit::Signal(signal),
                    });
                }
                Waited::End(..) => {}
            }
            if exit.is_some() {
                break;
            }
        }
        exit
    }
}
