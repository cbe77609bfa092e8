//! Runs real loaders and records their lookups, to compare predictions with them.
//!
//! A [`Start`] has the object, the method of starting the loader, and the environment. [`ld_debug`]
//! runs it and returns the record, and so does `strace` of `becalm-testing`. `becalm check` runs
//! nothing.
//!
//! The caller decides which loaders to trust. Under [`Launch::Trace`] the kernel starts the
//! interpreter that the program names. A glibc loader lists and exits before any code of the
//! program runs; another interpreter may do anything.

mod child;
mod ld_debug;

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;

pub use ld_debug::{LdDebug, ld_debug};

/// A start of a loader on an object.
#[derive(Clone, Debug)]
pub struct Start {
    /// The object's path as passed to the loader (`argv[0]` of a program).
    pub object: PathBuf,
    /// The method of starting the loader.
    pub launch: Launch,
    /// The whole environment; nothing is inherited.
    pub env: Vec<(OsString, OsString)>,
    /// Another root directory, which only root can use. All other paths here are inside it, and the
    /// process starts at its top.
    pub root: Option<PathBuf>,
    /// A static qemu-user for objects of another architecture.
    pub emulator: Option<PathBuf>,
    /// Run as this user, without supplementary groups. Only root can use this, and not together
    /// with another root directory.
    pub user: Option<User>,
    /// The current directory, if `root` is not set.
    pub dir: Option<PathBuf>,
    /// Time limit; a run that exceeds it is killed and fails.
    pub limit: Duration,
}

/// Method of starting a loader on an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Launch {
    /// The kernel starts the program, and `LD_TRACE_LOADED_OBJECTS` makes its glibc loader list the
    /// loaded objects and exit. Not for set-id programs.
    Trace,
    /// `LOADER OBJECT` with the same variable, as `ldd` does it, for libraries and set-id programs.
    /// `$ORIGIN` of a symlinked program then has another value.
    TraceBy {
        /// A glibc loader.
        loader: PathBuf,
    },
    /// `LOADER --list OBJECT`, for musl. A glibc loader would stop at the first missing library.
    List {
        /// The loader.
        loader: PathBuf,
    },
    /// The program runs; for programs that the tests create.
    Execute,
}

/// A user to run as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The name, as `strace -u` expects it.
    pub name: String,
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

impl User {
    /// Returns the user who owns no files, with Debian's numbers.
    #[must_use]
    pub fn nobody() -> Self {
        User { name: "nobody".into(), uid: 65534, gid: 65534 }
    }
}

impl Start {
    /// Creates a start of `object` with an empty environment and a limit of ten seconds.
    #[must_use]
    pub fn new(object: impl Into<PathBuf>, launch: Launch) -> Self {
        Start {
            object: object.into(),
            launch,
            env: Vec::new(),
            root: None,
            emulator: None,
            user: None,
            dir: None,
            limit: Duration::from_secs(10),
        }
    }

    /// Adds a variable to the environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Returns the loader if it is on the command line and so opens the object itself.
    #[must_use]
    pub fn named_loader(&self) -> Option<&Path> {
        match &self.launch {
            Launch::TraceBy { loader } | Launch::List { loader } => Some(loader),
            Launch::Trace | Launch::Execute => None,
        }
    }

    /// Returns the command line that starts the loader on the object.
    #[must_use]
    pub fn command_line(&self) -> Vec<OsString> {
        let mut line: Vec<OsString> = Vec::new();
        line.extend(self.emulator.as_ref().map(OsString::from));
        match &self.launch {
            Launch::TraceBy { loader } => line.push(loader.into()),
            Launch::List { loader } => line.extend([loader.into(), "--list".into()]),
            Launch::Trace | Launch::Execute => {}
        }
        // A name without a slash would be searched for along PATH, and by a loader as a library.
        let is_name = !self.object.as_os_str().as_bytes().contains(&b'/');
        let here = || Path::new(".").join(&self.object).into();
        line.push(if is_name { here() } else { self.object.clone().into() });
        line
    }

    /// Returns the environment of that command line. An emulator passes its own environment on.
    #[must_use]
    pub fn whole_env(&self, extra: &[(OsString, OsString)]) -> Vec<(OsString, OsString)> {
        let traced = matches!(self.launch, Launch::Trace | Launch::TraceBy { .. });
        let trace = traced.then(|| ("LD_TRACE_LOADED_OBJECTS".into(), "1".into()));
        self.env.iter().chain(extra).cloned().chain(trace).collect()
    }
}

/// Runs a command line that starts the object, such as that of a tracer, without input and environment.
/// Returns its standard error.
///
/// # Errors
/// Returns an error if the run fails to start or exceeds its time limit.
pub fn run(start: &Start, line: &[OsString]) -> Result<Vec<u8>, OracleError> {
    Ok(child::run(start, line, &[], false)?.stderr)
}

/// Errors of a run. If the loader rejects the object, that is no error: the record has it.
#[derive(Debug, Error)]
pub enum OracleError {
    /// The command could not be started.
    #[error("{}: cannot be started", command.display())]
    Start {
        /// First argument of the command line.
        command: PathBuf,
        /// The error of the system call.
        #[source]
        source: std::io::Error,
    },
    /// The run exceeded its time limit.
    #[error("{}: did not end within {limit:?}", object.display())]
    TooLong {
        /// The object.
        object: PathBuf,
        /// The time limit.
        limit: Duration,
    },
    /// A scratch file could not be created or read.
    #[error("{}: cannot create or read the record of the run", object.display())]
    Scratch {
        /// The object.
        object: PathBuf,
        /// The error of the system call.
        #[source]
        source: std::io::Error,
    },
    /// The tracer itself failed.
    #[error("{}: strace failed: {message}", object.display())]
    Tracer {
        /// The object.
        object: PathBuf,
        /// Its standard error.
        message: String,
    },
}

/// Returns a function for `map_err` that makes a scratch error.
fn scratch(object: &Path) -> impl Fn(std::io::Error) -> OracleError + '_ {
    move |source| OracleError::Scratch { object: object.to_owned(), source }
}

#[cfg(test)]
mod tests;
