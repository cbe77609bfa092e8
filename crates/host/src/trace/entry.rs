//! Measures the time from the `execve` to the entry point. The program runs under ptrace and stops
//! only at those two places, so the measurement hardly disturbs it.

use std::time::{Duration, Instant, SystemTime};

use super::exec::{Breakpoint, Program};
use super::spawn::{Exec, Spawned, spawn};
use super::stopped::{self, Stopped, Until, Waited, Why};
use super::sys;
use super::watchdog::Watchdog;
use super::{Command, TraceError};

/// Result of a timed start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entered {
    /// The entry point was reached.
    After(Entry),
    /// The program is static and begins at its entry point, or no breakpoint could be set there.
    NoLoader,
    /// The program ended before its entry point, because the loader failed.
    Ended,
    /// The program did not reach its entry point within the limit.
    TooLong,
}

/// A start up to its entry point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The time from the end of the `execve` to the entry point.
    pub time: Duration,
    /// The time of the `execve`, with a few system calls of the child before it.
    pub exec: Duration,
    /// The end of the `execve`.
    pub began: SystemTime,
    /// The page faults from the end of the `execve` on; 0 if they are not known.
    pub faults: u64,
}

/// Starts a program, measures the time to its entry point and kills it there. For a wrapper that
/// executes another program, this measures the wrapper's own start.
///
/// # Errors
/// Returns an error if the program could not be started or traced. No process is left running.
pub fn time_to_entry(command: &Command, limit: Duration) -> Result<Entered, TraceError> {
    let exec = Exec::new(command)?;
    let mut child = spawn(Some(&exec), false, false)?;
    let gone = Instant::now();
    child.go().map_err(|source| TraceError::failed(&exec.file(), "wait failed", source))?;
    // `wait` has no time limit, so another thread kills the program when the limit is over.
    let watchdog = Watchdog::start(child.pid, limit, false, None);
    let entered = watch(child, gone, &exec);
    match (entered, watchdog.end()) {
        (Ok(Entered::Ended), Err(_)) => Ok(Entered::TooLong),
        (entered, _) => entered,
    }
}

/// Runs the child to its entry point or to its end. The child has ended when this returns.
fn watch(mut child: Spawned, gone: Instant, exec: &Exec) -> Result<Entered, TraceError> {
    let not_watched = |source| TraceError::failed(&exec.file(), "wait failed", source);
    let mut running: Option<(Instant, Entry, Breakpoint)> = None;
    let mut entered = Entered::Ended;
    let mut is_program = false;
    // `SIGKILL` is pending then, so the task ends before it executes another instruction.
    let end = |task: Stopped| {
        sys::kill(task.pid, libc::SIGKILL);
        task.resume(Until::Filter, 0);
    };
    loop {
        match stopped::wait(Some(child.pid)).map_err(not_watched)? {
            Waited::End(..) if is_program => return Ok(entered),
            Waited::End(..) => return Err(child.never_started(exec)),
            Waited::Stop(task, Why::Exec) => {
                let executed = gone.elapsed();
                is_program = true;
                let entry = Program::of(&task).entry;
                let breakpoint = entry.and_then(|entry| Breakpoint::set(&task, entry));
                let Some(breakpoint) = breakpoint else {
                    entered = Entered::NoLoader;
                    end(task);
                    continue;
                };
                // The clock starts after the breakpoint is set, so that the tracer's work is not
                // measured.
                let (time, began, faults) = (Duration::ZERO, SystemTime::now(), faults(child.pid));
                let entry = Entry { time, exec: executed, began, faults };
                running = Some((Instant::now(), entry, breakpoint));
                task.resume(Until::Filter, 0);
            }
            Waited::Stop(task, Why::Signal(signal)) => {
                // Read before `is_hit`, which makes a system call.
                let now = Instant::now();
                match &running {
                    Some((began, entry, at)) if signal == libc::SIGTRAP && at.is_hit(&task) => {
                        let faults = faults(child.pid).saturating_sub(entry.faults);
                        let time = now.duration_since(*began);
                        entered = Entered::After(Entry { time, faults, ..*entry });
                        end(task);
                    }
                    _ => task.resume(Until::Filter, signal),
                }
            }
            Waited::Stop(task, why) => task.pass(why, Until::Filter),
        }
    }
}

/// Returns the page faults of a process so far (`minflt` and `majflt` of proc_pid_stat(5)).
fn faults(pid: sys::Pid) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after_name = stat.rsplit(") ").next().unwrap_or_default();
    let fields = after_name.split(' ').enumerate().filter(|(at, _)| matches!(at, 7 | 9));
    fields.filter_map(|(_, field)| field.parse::<u64>().ok()).sum()
}
