//! Measures the time from the `execve` to the entry point. The program runs under ptrace and stops
//! only at those two places, so the measurement hardly disturbs it.

use std::io;
use std::path::Path;
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
    let (exec, path) = Exec::new(command)?;
    let mut child = spawn(&path, Some(&exec), false, false)?;
    let gone = Instant::now();
    child.go().map_err(|source| TraceError::failed(&path, "wait failed", source))?;
    // `wait` has no time limit, so another thread kills the program when the limit is over.
    let watchdog = Watchdog::start(child.pid, limit, false, None);
    let entered = watch(child, gone, (&path, command.dir.as_deref().unwrap_or(&path)));
    match (entered, watchdog.end()) {
        (Ok(Entered::Ended), Err(_)) => Ok(Entered::TooLong),
        (entered, _) => entered,
    }
}

/// Runs the child to its entry point or to its end. The child has ended when this returns.
fn watch(
    mut child: Spawned,
    gone: Instant,
    (command, dir): (&Path, &Path),
) -> Result<Entered, TraceError> {
    let pid = child.pid;
    let not_watched = |source| TraceError::failed(command, "wait failed", source);
    let executed = next(pid, |_, why| why == Why::Exec).map_err(not_watched)?;
    let Some((task, _)) = executed else { return Err(child.never_started(command, dir)) };
    let exec = gone.elapsed();
    let breakpoint = Program::of(&task).entry.and_then(|entry| Breakpoint::set(&task, entry));
    let (task, entered) = match breakpoint {
        None => (task, Entered::NoLoader),
        Some(breakpoint) => {
            // The clock starts after the breakpoint is set, so that the tracer's work is not measured.
            let (began, faults_before) = (SystemTime::now(), faults(pid));
            let since = Instant::now();
            task.resume(Until::Filter, 0);
            let hit =
                next(pid, |task, why| why == Why::Signal(libc::SIGTRAP) && breakpoint.is_hit(task));
            let Some((task, now)) = hit.map_err(not_watched)? else { return Ok(Entered::Ended) };
            let (time, faults) = (now - since, faults(pid).saturating_sub(faults_before));
            (task, Entered::After(Entry { time, exec, began, faults }))
        }
    };
    sys::kill(pid, libc::SIGKILL);
    // `SIGKILL` is pending, so the task ends before it executes another instruction.
    task.resume(Until::Filter, 0);
    next(pid, |_, _| false).map_err(not_watched)?;
    Ok(entered)
}

/// Runs the child to a stop of this kind, and returns it with its time; `None` if the child ends before.
fn next(
    pid: sys::Pid,
    is_wanted: impl Fn(&Stopped, Why) -> bool,
) -> io::Result<Option<(Stopped, Instant)>> {
    loop {
        let waited = stopped::wait(Some(pid))?;
        // Read before `is_wanted`, which may make a system call.
        let now = Instant::now();
        match waited {
            Waited::End(..) => return Ok(None),
            Waited::Stop(task, why) if is_wanted(&task, why) => return Ok(Some((task, now))),
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
