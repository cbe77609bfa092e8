//! What watching one call costs on this machine, measured on a child that calls `getppid`
//! and has not become a program yet: the kernel's own work on that is a fraction of a
//! microsecond.

use std::io;
use std::time::Instant;

use super::Calibration;
use super::spawn::{Body, CALLS, Failed, Spawned, spawn};
use super::stopped::{self, Until, Waited, Why};
use super::sys::AtCall;

/// Lets the child go and measures on its first calls; it then runs on.
///
/// # Errors
/// It cannot be watched, or was killed.
pub(super) fn measure(child: &mut Spawned) -> io::Result<Calibration> {
    let mut clocks = Clocks::default();
    // Stopped before it is let go, it stops at each call from its first one on.
    stopped::interrupt(child.pid);
    child.go()?;
    loop {
        let task = match stopped::wait(Some(child.pid))? {
            Waited::End(..) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Waited::Stop(task, Why::Signal(signal)) => {
                task.resume(Until::Call, signal);
                continue;
            }
            Waited::Stop(task, Why::Group(_)) => {
                task.listen();
                continue;
            }
            Waited::Stop(task, _) => task,
        };
        let now = Instant::now();
        let at = task.call()?.at();
        if matches!(at, AtCall::Entry { .. }) {
            // Read as a path would be; the child is a copy of this process.
            task.string(c"/a/path/as/long/as/those/of/libraries/libsomething.so.6".as_ptr() as u64);
        }
        clocks.note(at, now);
        if clocks.samples.len() == CALLS {
            task.resume(Until::Filter, 0);
            return Ok(clocks.calibration());
        }
        task.resume(Until::Call, 0);
    }
}

/// Measures on a child of its own, wherever the kernel puts it.
pub(super) fn apart() -> Result<Calibration, Failed> {
    let mut child = spawn(&Body::End, false)?;
    let measured = measure(&mut child).map_err(Failed::Seize);
    child.abandon();
    measured
}

/// The times of the calls.
#[derive(Default)]
struct Clocks {
    /// When the last call was seen to begin, and when it was let go.
    began: Option<(Instant, Instant)>,
    in_call: bool,
    samples: Vec<u64>,
    cycles: Vec<u64>,
}

impl Clocks {
    /// A call begins or ends; `now` is when that was seen.
    fn note(&mut self, at: AtCall, now: Instant) {
        match at {
            AtCall::Entry { number, .. } if i64::from(number) == libc::SYS_getppid => {
                self.cycles.extend(self.began.map(|(before, _)| nanos(before, now)));
                self.began = Some((now, Instant::now()));
                self.in_call = true;
            }
            AtCall::Exit { .. } if self.in_call => {
                self.samples.extend(self.began.map(|(_, from)| nanos(from, now)));
                self.in_call = false;
            }
            _ => {}
        }
    }

    fn calibration(mut self) -> Calibration {
        Calibration {
            call_ns: median(&mut self.samples),
            cycle_ns: median(&mut self.cycles),
            samples: u32::try_from(self.samples.len()).unwrap_or(u32::MAX),
            ..Calibration::default()
        }
    }
}

/// What watching a call costs, in nanoseconds; see [`Calibration`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    pub(super) call_ns: u64,
    pub(super) cycle_ns: u64,
}

/// Nanoseconds from one moment to another.
pub(super) fn nanos(from: Instant, to: Instant) -> u64 {
    u64::try_from(to.saturating_duration_since(from).as_nanos()).unwrap_or(u64::MAX)
}

fn median(values: &mut [u64]) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}
