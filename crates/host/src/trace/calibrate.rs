//! Measures the cost of tracing one call on this machine. A child that has not called `execve` yet
//! calls `getppid`, on which the kernel itself spends a fraction of a microsecond.

use std::io;
use std::time::Instant;

use super::Overhead;
use super::spawn::{CALLS, Spawned, spawn};
use super::stopped::{self, Until, Waited, Why};
use super::sys::AtCall;

/// Starts the child and measures its first calls. The child keeps running afterwards.
///
/// # Errors
/// Returns an error if the child cannot be traced or was killed.
pub(super) fn measure(child: &mut Spawned) -> io::Result<Overhead> {
    // The time at which the last call's start was seen and, during the call, that at which the task was
    // resumed.
    let (mut seen, mut resumed): (Option<Instant>, Option<Instant>) = (None, None);
    let (mut samples, mut cycles) = (Vec::new(), Vec::new());
    // Interrupted before it starts, the child stops at each call from its first one on.
    stopped::interrupt(child.pid);
    child.go()?;
    loop {
        let task = match stopped::wait(Some(child.pid))? {
            Waited::End(..) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Waited::Stop(task, why @ (Why::Signal(_) | Why::Group(_))) => {
                task.pass(why, Until::Call);
                continue;
            }
            Waited::Stop(task, _) => task,
        };
        let now = Instant::now();
        let at = task.call()?.at();
        if let AtCall::Entry { number, .. } = at {
            // A traced lookup also reads its path. The child is a copy of this process, so it has
            // the same string at the same address.
            task.string(c"/a/path/as/long/as/those/of/libraries/libsomething.so.6".as_ptr() as u64);
            if i64::from(number) == libc::SYS_getppid {
                // From one start to the next: the whole cycle of a traced call.
                cycles.extend(seen.map(|before| nanos(before, now)));
                (seen, resumed) = (Some(now), Some(Instant::now()));
            }
        } else if let AtCall::Exit { .. } = at {
            samples.extend(resumed.take().map(|from| nanos(from, now)));
        }
        if samples.len() == CALLS {
            task.resume(Until::Filter, 0);
            let (call_ns, cycle_ns) = (median(&mut samples), median(&mut cycles));
            return Ok(Overhead { call_ns, cycle_ns, samples: CALLS as u32 });
        }
        task.resume(Until::Call, 0);
    }
}

/// Measures a child of its own on whatever processor the scheduler chooses.
pub(super) fn apart() -> Option<Overhead> {
    let mut child = spawn(None, false, false).ok()?;
    let measured = measure(&mut child).ok();
    child.abandon();
    measured
}

/// Returns the nanoseconds between two times.
pub(super) fn nanos(from: Instant, to: Instant) -> u64 {
    u64::try_from(to.saturating_duration_since(from).as_nanos()).unwrap_or(u64::MAX)
}

fn median(values: &mut [u64]) -> u64 {
    // The median ignores samples in which the scheduler ran something else.
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}
