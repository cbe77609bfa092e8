//! From the `execve` to the entry point, timed with next to no disturbance: the program
//! runs under ptrace, but stops only at those two places.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::exec::{Breakpoint, Program};
use super::spawn::{Body, Exec, Failed, Report, Spawned, spawn};
use super::stopped::{self, Until, Waited, Why};
use super::sys;
use super::{Command, TraceError};

/// What became of a start that was to be timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entered {
    /// The entry point was reached, so long after the `execve`.
    After(Duration),
    /// A static program: it begins at its entry point. Or one whose entry point cannot be
    /// watched.
    NoLoader,
    /// It ended before, because the loader gave up.
    Ended,
    /// It took longer than it might.
    TooLong,
}

/// Starts a program, times it up to its entry point and kills it there. Of a wrapper that
/// becomes another program it is the wrapper's own start.
///
/// # Errors
/// The program could not be started or watched; nothing of it is left running.
pub fn time_to_entry(command: &Command, limit: Duration) -> Result<Entered, TraceError> {
    let (exec, path) = Exec::new(command)?;
    let failed = |failed| match failed {
        Failed::Fork(source) => TraceError::Fork { command: path.clone(), source },
        Failed::Seize(source) => TraceError::NotPermitted { command: path.clone(), source },
    };
    let mut child = spawn(&Body::Exec(exec), false).map_err(failed)?;
    child.go().map_err(|source| Trouble::Wait(source).about(&path))?;
    let pid = child.pid;
    let (ended, waiting) = channel::<()>();
    thread::scope(|scope| {
        let too_long = scope.spawn(move || {
            let too_long = waiting.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
            if too_long {
                sys::kill(pid, libc::SIGKILL);
            }
            too_long
        });
        let entered = watch(child).map_err(|trouble| trouble.about(&path));
        drop(ended);
        match (entered, too_long.join()) {
            (Ok(Entered::Ended), Ok(true)) => Ok(Entered::TooLong),
            (entered, _) => entered,
        }
    })
}

/// Why nothing was timed.
enum Trouble {
    /// The child never became the program: this errno of `execve`, where it said one.
    Exec(Option<i32>),
    /// The directory could not be entered.
    Directory(i32),
    /// It cannot be waited for.
    Wait(std::io::Error),
}

impl Trouble {
    fn about(self, path: &std::path::Path) -> TraceError {
        let command = path.to_owned();
        match self {
            Self::Exec(Some(errno)) => {
                TraceError::Exec { command, source: std::io::Error::from_raw_os_error(errno) }
            }
            Self::Exec(None) => TraceError::Tracer {
                command,
                call: "execve",
                source: std::io::ErrorKind::Interrupted.into(),
            },
            Self::Directory(errno) => TraceError::Directory {
                dir: command,
                source: std::io::Error::from_raw_os_error(errno),
            },
            Self::Wait(source) => TraceError::Tracer { command, call: "wait", source },
        }
    }
}

/// Follows the child to its entry point, or to its end. It has ended when this returns.
fn watch(mut child: Spawned) -> Result<Entered, Trouble> {
    let mut running: Option<(Instant, Breakpoint)> = None;
    let mut entered = Entered::Ended;
    let mut is_program = false;
    loop {
        match stopped::wait(Some(child.pid)).map_err(Trouble::Wait)? {
            Waited::End(..) if is_program => return Ok(entered),
            Waited::End(..) => return Err(never_started(&mut child)),
            Waited::Stop(task, Why::Exec) => {
                is_program = true;
                let entry = Program::of(&task).entry;
                let breakpoint = entry.and_then(|entry| Breakpoint::set(&task, entry));
                let Some(breakpoint) = breakpoint else {
                    entered = Entered::NoLoader;
                    sys::kill(child.pid, libc::SIGKILL);
                    task.resume(Until::Filter, 0);
                    continue;
                };
                running = Some((Instant::now(), breakpoint));
                task.resume(Until::Filter, 0);
            }
            Waited::Stop(task, Why::Signal(signal)) => {
                let now = Instant::now();
                match &running {
                    Some((began, at)) if signal == libc::SIGTRAP && at.is_hit(&task) => {
                        entered = Entered::After(now.duration_since(*began));
                        sys::kill(child.pid, libc::SIGKILL);
                        task.resume(Until::Filter, 0);
                    }
                    _ => task.resume(Until::Filter, signal),
                }
            }
            Waited::Stop(task, Why::Group(_)) => task.listen(),
            Waited::Stop(task, _) => task.resume(Until::Filter, 0),
        }
    }
}

fn never_started(child: &mut Spawned) -> Trouble {
    let told = child.reports().into_iter().find_map(|report| match report {
        Report::Exec(errno) => Some(Trouble::Exec(Some(errno))),
        Report::Directory(errno) => Some(Trouble::Directory(errno)),
        Report::NoFilter(_) | Report::NoNewPrivileges => None,
    });
    told.unwrap_or(Trouble::Exec(None))
}
