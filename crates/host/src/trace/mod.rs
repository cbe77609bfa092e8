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
//! - [`Front`] puts the tracer into a child of the process that the user started: killing
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

mod error;
mod report;

use std::ffi::OsString;
use std::path::PathBuf;

use becalm_core::observe::Lookup;

pub use error::TraceError;
pub use report::{Calibration, Exit, Image, Note, Share, Traced};

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
    /// Lookups of the loader's share kept for each image.
    pub max_lookups: usize,
    /// The process that stands before this one, from [`Front::enter`].
    pub front: Option<Front>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            follow: false,
            all_syscalls: false,
            until_entry: false,
            max_lookups: 1_000_000,
            front: None,
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

/// Runs a program and watches it to its end, or to its entry point.
///
/// # Errors
/// The program could not be started or watched; nothing of it is left running.
pub fn run(command: &Command, options: Options) -> Result<Traced, TraceError> {
    run_with(command, options, &mut |_| ())
}

/// As [`run`]; `sink` gets each lookup of every counted process when it is over.
///
/// # Errors
/// As [`run`].
pub fn run_with(
    command: &Command,
    options: Options,
    sink: &mut dyn FnMut(Event<'_>),
) -> Result<Traced, TraceError> {
    let _ = (options, sink);
    Err(TraceError::Architecture { command: command.program.clone().into() })
}

/// What is still to be looked after when a run is over: processes that outlived the
/// program (the filter is theirs too), or the program itself when it is no longer
/// watched. To be called after the report was given; dropping it leaves filtered processes
/// without an answer.
#[derive(Debug)]
pub struct Rest {}

impl Rest {
    /// Serves them until the last has ended; how the program ended, where that was open.
    #[must_use]
    pub fn finish(self) -> Option<Exit> {
        None
    }
}

/// The process that the user started, when the tracer is a child of it. It passes
/// signals on, stops and goes on as the program does, and ends with its exit code;
/// killing it ends neither program nor tracer.
#[derive(Debug)]
pub struct Front {}

impl Front {
    /// Forks; returns in the child. The parent stays in here and exits with the code
    /// that [`Front::release`] names, or with that of the child. To be called before any
    /// thread is started.
    ///
    /// # Errors
    /// No process could be made; the caller goes on without.
    pub fn enter() -> std::io::Result<Front> {
        Err(std::io::ErrorKind::Unsupported.into())
    }

    /// Lets the front exit with this code now, while this process goes on (to serve what
    /// is left, see [`Rest`]).
    pub fn release(&self, code: u8) {
        let _ = code;
    }
}
