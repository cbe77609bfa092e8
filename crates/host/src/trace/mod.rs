//! The tracer: runs a program under ptrace and tells what it looked for.
//!
//! A seccomp filter, installed between fork and exec, makes the calls that look for
//! files stop and lets all others run at full speed; a breakpoint at the program's entry
//! point tells the loader's share from the program's. Each successful `execve` is an
//! image of its own.
//!
//! # What happens when the tracer dies
//!
//! A filter cannot be taken back, and where nobody watches any more the kernel answers
//! the calls it names with `ENOSYS`. So:
//!
//! - whatever asks *this* process to end (`SIGTERM`, `SIGHUP`, `SIGINT`, …) is handed on
//!   to the program, and the tracer ends when the program does;
//! - processes that outlive the program are served until they end ([`Rest`]);
//! - [`Supervisor`] puts the tracer into a child of the process that the user started: killing
//!   that one, by whatever signal, ends neither program nor tracer;
//! - with [`Options::all_syscalls`] and [`Options::until_entry`] there is no filter, and
//!   after the entry point nothing is left behind in the program.
//!
//! What remains: a `SIGKILL` aimed at the tracing process itself breaks a filtered
//! program's next lookup, and a program that has not reached its entry point dies of the
//! breakpoint there.
//!
//! # Layers
//!
//! [`run`] → `tracer` (the event loop) → `stopped` (a stopped task, the only thing that
//! can be asked or resumed) → `sys` (the system calls). `arch` holds what differs between
//! machines.

mod arch;
mod calibrate;
mod calls;
mod count;
mod entry;
mod error;
mod exec;
mod filter;
mod report;
mod rest;
mod signals;
mod spawn;
mod stopped;
mod supervisor;
mod sys;
mod together;
mod tracer;
mod untraced;

use std::ffi::OsString;
use std::path::PathBuf;

use becalm_core::observe::Lookup;

use count::Counting;
use spawn::{Body, Exec, Failed, spawn};
use together::Together;
use tracer::Tracer;

pub use entry::{Entered, time_to_entry};
pub use error::TraceError;
pub use report::{Calibration, Exit, Image, Note, Share, Traced};
pub use rest::Rest;
pub use supervisor::Supervisor;
pub use together::keep_off_this_processor;
pub use untraced::{Untraced, run_untraced};

/// The program to run. Its standard streams, terminal and process group are ours.
#[derive(Clone, Debug)]
pub struct Command {
    /// A path, or a name to be looked for along `PATH`.
    pub program: OsString,
    /// The arguments after the program's name.
    pub args: Vec<OsString>,
    /// The whole environment; `None` for ours.
    pub env: Option<Vec<(OsString, OsString)>>,
    /// The current directory; `None` for ours.
    pub dir: Option<PathBuf>,
}

impl Command {
    /// A command with our environment in our directory.
    #[must_use]
    pub fn new(program: impl Into<OsString>, args: impl IntoIterator<Item = OsString>) -> Self {
        Command { program: program.into(), args: args.into_iter().collect(), env: None, dir: None }
    }

    /// The file that is run: the program's path, or what `PATH` has of that name.
    ///
    /// # Errors
    /// There is none, or none that may be executed.
    pub fn file(&self) -> Result<PathBuf, TraceError> {
        match &self.env {
            Some(env) => spawn::find(self, env),
            None => spawn::find(self, &std::env::vars_os().collect::<Vec<_>>()),
        }
    }
}

/// What to watch.
#[derive(Debug)]
pub struct Options {
    /// Count the program's child processes too.
    pub follow: bool,
    /// Stop at every system call, for a complete histogram.
    pub all_syscalls: bool,
    /// Stop watching when the first image reaches its entry point.
    pub until_entry: bool,
    /// Lookups of the loader kept for each image.
    pub max_lookups: usize,
    /// The process that stands before this one, from [`Supervisor::enter`].
    pub supervisor: Option<Supervisor>,
}

impl Options {
    /// True where a filter shall choose the calls that stop.
    fn wants_filter(&self) -> bool {
        !self.all_syscalls && !self.until_entry
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            follow: false,
            all_syscalls: false,
            until_entry: false,
            max_lookups: 1_000_000,
            supervisor: None,
        }
    }
}

/// Which side of the entry point a lookup is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Before it.
    Loader,
    /// After it.
    Program,
}

/// One lookup, as it happens.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// Process id.
    pub pid: u32,
    /// Index of the image among those of [`Traced::images`].
    pub image: usize,
    /// Which side of the entry point.
    pub phase: Phase,
    /// The lookup.
    pub lookup: &'a Lookup,
}

/// Who is told of what happens while it happens: in the middle of the run, so that what
/// takes long had better be done by another thread.
pub trait Listener {
    /// A lookup of a counted process is over.
    fn looked_up(&mut self, event: Event<'_>) {
        let _ = event;
    }

    /// A program is about to begin, at this index among [`Traced::images`]; what is
    /// known of it is known, and nothing counted.
    fn began(&mut self, index: usize, image: &Image) {
        let _ = (index, image);
    }
}

impl<F: FnMut(Event<'_>)> Listener for F {
    fn looked_up(&mut self, event: Event<'_>) {
        self(event);
    }
}

/// Runs a program and watches it to its end, or to its entry point.
///
/// # Errors
/// The program could not be started or watched; nothing of it is left running.
pub fn run(command: &Command, options: Options) -> Result<Traced, TraceError> {
    run_with(command, options, &mut |_: Event<'_>| ())
}

/// As [`run`], and tells `listener` of what happens while it happens.
///
/// # Errors
/// As [`run`].
pub fn run_with(
    command: &Command,
    options: Options,
    listener: &mut dyn Listener,
) -> Result<Traced, TraceError> {
    let (exec, path) = Exec::new(command)?;
    let failed = |failed| match failed {
        Failed::Fork(source) => TraceError::Fork { command: path.clone(), source },
        Failed::Seize(source) => TraceError::NotPermitted { command: path.clone(), source },
    };
    let together = Together::begin();
    let mut child = spawn(&Body::Exec(exec), options.wants_filter()).map_err(failed)?;
    let together = together.map(|together| together.with(child.pid));
    let handing_on = signals::hand_on(child.pid);
    let overhead = match calibrate::measure(&mut child) {
        Ok(measured) if together.is_none() => measured.with(measured),
        Ok(measured) => measured,
        Err(error) => {
            child.abandon();
            return Err(failed(Failed::Seize(error)));
        }
    };
    let dir = command.dir.clone().unwrap_or_default();
    let mut tracer = Tracer::new(child, (path, dir), options, (overhead, together), listener);
    tracer.watch()?;
    let exit = tracer.exit.unwrap_or(Exit::Running);
    let rest = match exit {
        Exit::Running => Some(Rest::new(Some(tracer.root()), handing_on)),
        _ if tracer.leaves_filtered() => Some(Rest::new(None, handing_on)),
        _ => None,
    };
    let supervisor = tracer.options.supervisor.take();
    let overhead = tracer.overhead;
    let images = tracer.images.into_iter().map(Counting::finish).collect();
    Ok(Traced { images, exit, overhead, notes: tracer.notes, rest, supervisor })
}

#[cfg(test)]
mod tests;
