//! What watching one call costs on this machine, measured on a child that does nothing
//! but call `getppid`: the kernel's own work on that is a fraction of a microsecond.

use std::time::Instant;

use super::Calibration;
use super::filter::Stops;
use super::spawn::{Body, Failed, spawn};
use super::stopped::{self, Until, Waited, Why};

/// Calls of the child. Enough for a steady median, few enough not to be felt.
const CALLS: u32 = 16;

/// Measures.
pub(super) fn measure() -> Result<Calibration, Failed> {
    let child = spawn(&Body::Calibrate(CALLS), Some(Stops::One("getppid")))?;
    // Read as a path would be; the child is a copy of this process.
    let text = c"/a/path/as/long/as/those/of/libraries/libsomething.so.6";
    let mut samples: Vec<u64> = Vec::new();
    let mut cycles: Vec<u64> = Vec::new();
    let mut began: Option<Instant> = None;
    loop {
        match stopped::wait(Some(child.pid)).map_err(Failed::Seize)? {
            Waited::End(..) => break,
            Waited::Stop(task, Why::Filter) => {
                let now = Instant::now();
                cycles.extend(began.replace(now).map(|before| nanos(before, now)));
                task.call().map_err(Failed::Seize)?;
                task.string(text.as_ptr() as u64);
                let from = Instant::now();
                task.resume(Until::Call, 0);
                let waited = stopped::wait(Some(child.pid)).map_err(Failed::Seize)?;
                let to = Instant::now();
                samples.push(nanos(from, to));
                let Waited::Stop(task, _) = waited else { break };
                task.call().map_err(Failed::Seize)?;
                task.resume(Until::Filter, 0);
            }
            Waited::Stop(task, Why::Signal(signal)) => task.resume(Until::Filter, signal),
            Waited::Stop(task, Why::Group(_)) => task.listen(),
            Waited::Stop(task, _) => task.resume(Until::Filter, 0),
        }
    }
    Ok(Calibration {
        call_ns: median(&mut samples),
        cycle_ns: median(&mut cycles),
        samples: u32::try_from(samples.len()).unwrap_or(CALLS),
        ..Calibration::default()
    })
}

/// Nanoseconds from one moment to another.
pub(super) fn nanos(from: Instant, to: Instant) -> u64 {
    u64::try_from(to.saturating_duration_since(from).as_nanos()).unwrap_or(u64::MAX)
}

fn median(values: &mut [u64]) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}
