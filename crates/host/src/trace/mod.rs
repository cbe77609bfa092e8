//! Runs a program under ptrace and records the files it looks for.
//!
//! A seccomp filter, installed between fork and exec, stops the program at the calls that look for
//! files. All other calls run at full speed. A breakpoint at the program's entry point separates
//! the loader's share from the program's. Each successful `execve` starts a new image.
//!
//! # If the tracer dies
//!
//! A seccomp filter cannot be removed. If no tracer is attached, the kernel fails the filtered
//! calls with `ENOSYS`. Four measures keep the program alive:
//!
//! - The tracer forwards signals that would end it (`SIGTERM`, `SIGHUP`, `SIGINT`, …) to the
//!   program. It ends when the program ends.
//! - The tracer serves processes that outlive the program until they end ([`Rest`]).
//! - [`Supervisor`] runs the tracer in a child of the process that the user started. Any signal,
//!   `SIGKILL` included, can end the supervisor; the program and the tracer go on.
//! - [`Options::all_syscalls`] and [`Options::until_entry`] install no filter. After the entry
//!   point they leave nothing in the program.
//!
//! One case remains. If the tracing process itself gets `SIGKILL`, the next lookup of a filtered
//! program fails. A program that has not reached its entry point dies at the breakpoint.
//!
//! # Layers
//!
//! [`run`] → `tracer` (the event loop) → `stopped` (a stopped task; no other task can be inspected
//! or resumed) → `sys` (the system calls). `arch` has the differences between architectures.

mod arch;
mod calibrate;
mod calls;
mod count;
mod entry;
mod error;
mod exec;
mod exit;
mod filter;
mod report;
mod rest;
mod shared_cpu;
mod signals;
mod spawn;
mod stamped;
mod stopped;
mod streams;
mod supervisor;
mod sys;
mod tracer;
mod untraced;
mod waits;
mod watchdog;

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process;
use std::time::Duration;

use crate::used::Used;

use shared_cpu::SharedCpu;
use spawn::{Exec, spawn};
use tracer::Tracer;
use waits::Collector;
use watchdog::Watchdog;

pub use entry::{Entered, Entry, time_to_entry};
pub use error::TraceError;
pub use report::{Exit, FileWaits, Image, Note, Overhead, Pages, Share, TimedLookup, Traced};
pub use rest::Rest;
pub use shared_cpu::keep_off_this_processor;
pub use stamped::{Stamped, stamped};
pub use streams::Streams;
pub use supervisor::Supervisor;
pub use untraced::{Untraced, run_untraced};

/// A program to run. It shares this process's terminal and process group.
#[derive(Clone, Debug, Default)]
pub struct Command {
    /// A path, or a name to search for along `PATH`.
    pub program: OsString,
    /// The arguments after the program's name.
    pub args: Vec<OsString>,
    /// The whole environment; `None` inherits this process's.
    pub env: Option<Vec<(OsString, OsString)>>,
    /// The current directory; `None` inherits this process's.
    pub dir: Option<PathBuf>,
    /// The standard streams; `None` inherits this process's.
    pub streams: Option<Streams>,
}

impl Command {
    /// Creates a command that inherits the environment and the current directory.
    #[must_use]
    pub fn new(program: impl Into<OsString>, args: impl IntoIterator<Item = OsString>) -> Self {
        let (program, args) = (program.into(), args.into_iter().collect());
        Command { program, args, ..Command::default() }
    }

    /// Returns the path of the file to execute, found along `PATH` if the name has no slash.
    ///
    /// # Errors
    /// Returns [`TraceError::NotFound`] if no such file exists, or [`TraceError::Exec`] if none of
    /// the candidates is executable.
    pub fn file(&self) -> Result<PathBuf, TraceError> {
        match &self.env {
            Some(env) => spawn::find(self, env),
            None => spawn::find(self, &std::env::vars_os().collect::<Vec<_>>()),
        }
    }

    /// Returns the command that executes `file`, with the streams of this process.
    pub(crate) fn of_std(&self, file: &Path) -> process::Command {
        let mut command = process::Command::new(file);
        command.arg0(&self.program).args(&self.args);
        if let Some(env) = &self.env {
            command.env_clear().envs(env.iter().map(|(name, value)| (name, value)));
        }
        if let Some(dir) = &self.dir {
            command.current_dir(dir);
        }
        command
    }
}

/// Maximum number of lookups of a kind that are kept for each image.
pub const MAX_LOOKUPS: usize = 1_000_000;

/// Options of a traced run.
#[derive(Debug, Default)]
pub struct Options {
    /// Count the program's child processes too.
    pub follow: bool,
    /// Stop at every system call, for a complete histogram.
    pub all_syscalls: bool,
    /// Stop watching when the first image reaches its entry point.
    pub until_entry: bool,
    /// Keep the paths that each image opens after its entry point.
    pub opened: bool,
    /// Keep the lookups of each image with their times.
    pub timeline: bool,
    /// Record the waits for pages that are not in memory.
    pub pages: bool,
    /// With `pages`: the files are known not to be in memory. All page faults are reported from the begin, which
    /// makes a warm start measurably slower, and otherwise from the first major one on.
    pub cold: bool,
    /// The supervisor process of this tracer, from [`Supervisor::enter`].
    pub supervisor: Option<Supervisor>,
    /// Time limit of a run that this process makes for itself. At the limit the program and its
    /// processes are killed; processes that outlive the program are killed with its end. Signals
    /// are left to this process.
    pub limit: Option<Duration>,
    /// With `limit`: the run ends at the program's first idle moment as well ([`crate::idle`]). The program and
    /// its processes are killed there.
    pub until_idle: bool,
}

impl Options {
    /// Returns true if a seccomp filter chooses the calls that stop.
    fn wants_filter(&self) -> bool {
        !self.all_syscalls && !self.until_entry
    }
}

/// Position of a lookup relative to the entry point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Before the entry point.
    Loader,
    /// After the entry point.
    Program,
}

/// Called when a program reaches its entry point, with the image's index among [`Traced::images`].
/// The image has its path and environment, and no counts yet. The program waits during the call, so
/// slow work belongs on another thread.
pub type Entering<'a> = dyn FnMut(usize, &Image) + 'a;

/// Runs a program, traces it to its end, its entry point or its first idle moment, and calls `entering`
/// at each entry point.
///
/// # Errors
/// Returns an error if the program could not be started or traced. No process is left running.
pub fn run(
    command: &Command,
    options: Options,
    entering: &mut Entering<'_>,
) -> Result<Traced, TraceError> {
    let exec = Exec::new(command)?;
    let file = exec.file();
    let used_before = Used::by_children();
    let mut shared_cpu = SharedCpu::begin();
    let mut child = spawn(Some(&exec), options.wants_filter(), true)?;
    if let Some(shared_cpu) = &mut shared_cpu {
        shared_cpu.child = Some((child.pid, shared_cpu.tracer));
    }
    let affinity = || shared_cpu.as_ref().map(|shared_cpu| shared_cpu.tracer);
    let watchdog = options
        .limit
        .map(|limit| Watchdog::start(child.pid, limit, options.until_idle, affinity()));
    // Before the child gets the go-ahead, so that no page fault and no signal of the program is missed.
    let pages = options.pages.then(|| Collector::start(child.pid, affinity(), options.cold));
    let forwarding = options.limit.is_none().then(|| signals::forward_to(child.pid));
    let overhead = match calibrate::measure(&mut child) {
        Ok(measured) => measured,
        Err(error) => {
            child.abandon();
            return Err(TraceError::NotPermitted { command: file, source: error });
        }
    };
    let mut tracer = Tracer::new(child, exec, options, (overhead, shared_cpu), entering);
    let watched = tracer.watch();
    if let Some(watchdog) = watchdog {
        tracer.kill_rest();
        let idle = watchdog.end().map_err(|limit| TraceError::TooLong { command: file, limit })?;
        let was_killed = tracer.exit == Some(Exit::Signal(libc::SIGKILL));
        if let Some(since) = idle.filter(|_| was_killed) {
            tracer.exit = Some(Exit::Idle);
            tracer.images.iter_mut().for_each(|image| image.ended_before(since));
        }
    }
    watched?;
    let exit = tracer.exit.unwrap_or(Exit::Running);
    let rest = match exit {
        Exit::Running => Some(Rest::new(Some(tracer.child.pid), forwarding)),
        _ if tracer.leaves_filtered() => Some(Rest::new(None, forwarding)),
        _ => None,
    };
    let supervisor = tracer.options.supervisor.take();
    let (overhead, apart) = (tracer.overhead, tracer.apart);
    let mut images: Vec<Image> = {
        let first = tracer.images.first().map(|image| image.began);
        tracer.images.into_iter().map(|image| image.finish(first)).collect()
    };
    let mut notes = tracer.notes;
    notes.extend(pages.and_then(|pages| add_pages(&mut images, pages, &used_before)));
    Ok(Traced { images, exit, overhead, apart, notes, rest, supervisor })
}

/// Adds the waits for pages to the images. Returns what a reader needs to know of them.
fn add_pages(
    images: &mut [Image],
    pages: io::Result<Collector>,
    used_before: &Used,
) -> Option<Note> {
    match pages.map(Collector::finish) {
        Ok(mut collected) => {
            collected.fill(images);
            (collected.lost > 0).then_some(Note::PagesLost { events: collected.lost })
        }
        Err(error) => {
            let waits = Used::by_children().major_faults.saturating_sub(used_before.major_faults);
            let errno = error.raw_os_error().unwrap_or(0);
            (waits > 0).then_some(Note::PagesNotMeasured { errno, waits })
        }
    }
}

#[cfg(test)]
mod tests;
