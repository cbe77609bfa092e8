//! Runs of real loaders: what they really tried, to hold a prediction against.
//!
//! A [`Start`] says which object, which loader is brought to work on it and how, and
//! in what environment; [`ld_debug`] and [`strace`] start it and give the record.
//! Only the tests, the lab and the differential driver come here: `becalm check`
//! runs nothing.
//!
//! Whoever calls decides which loaders are trusted: under [`Way::Trace`] the kernel
//! starts the interpreter that the program names. A glibc loader lists and exits
//! before any code of the program runs; another interpreter may do anything.

mod child;
mod ld_debug;
mod strace;

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;

pub use ld_debug::{LdDebug, ld_debug};
pub use strace::{Strace, strace};

/// One start of a loader on one object.
#[derive(Clone, Debug)]
pub struct Start {
    /// The object, as it is named to the loader (`argv[0]` of a program).
    pub object: PathBuf,
    /// How the loader is brought to work on it.
    pub way: Way,
    /// The whole environment: nothing is inherited.
    pub env: Vec<(OsString, OsString)>,
    /// Another root directory; needs root. All other paths here are inside it, and
    /// the run starts at its top.
    pub root: Option<PathBuf>,
    /// A static qemu-user, for objects of another architecture.
    pub emulator: Option<PathBuf>,
    /// Run as this user, without supplementary groups; needs root, and not together
    /// with another root directory.
    pub user: Option<User>,
    /// The current directory, where no other root is asked for.
    pub dir: Option<PathBuf>,
    /// After this long the run is ended and counts as failed.
    pub limit: Duration,
}

/// How a loader is brought to work on an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// The kernel starts the program, and `LD_TRACE_LOADED_OBJECTS` makes its glibc
    /// loader list what it loaded and exit. Never for set-id programs.
    Trace,
    /// `LOADER OBJECT`, traced likewise, as `ldd` does it: libraries, set-id programs.
    /// `$ORIGIN` of a symlinked program is then another one.
    TraceBy {
        /// A glibc loader.
        loader: PathBuf,
    },
    /// `LOADER --list OBJECT`: musl. (A glibc loader would stop at the first missing
    /// library.)
    List {
        /// The loader.
        loader: PathBuf,
    },
    /// The program runs. For fixtures made here.
    Execute,
}

/// A user to run as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Name, as `strace -u` wants it.
    pub name: String,
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

impl User {
    /// The user who owns nothing, with Debian's numbers.
    #[must_use]
    pub fn nobody() -> Self {
        User { name: "nobody".into(), uid: 65534, gid: 65534 }
    }
}

impl Start {
    /// A start of `object` with an empty environment and ten seconds of time.
    #[must_use]
    pub fn new(object: impl Into<PathBuf>, way: Way) -> Self {
        Start {
            object: object.into(),
            way,
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

    /// The loader, where it is named on the command line and so opens the object itself.
    #[must_use]
    pub fn named_loader(&self) -> Option<&Path> {
        match &self.way {
            Way::TraceBy { loader } | Way::List { loader } => Some(loader),
            Way::Trace | Way::Execute => None,
        }
    }

    /// The command line that makes the loader work on the object.
    fn command_line(&self) -> Vec<OsString> {
        let mut line: Vec<OsString> = Vec::new();
        line.extend(self.emulator.as_ref().map(OsString::from));
        match &self.way {
            Way::TraceBy { loader } => line.push(loader.into()),
            Way::List { loader } => line.extend([loader.into(), "--list".into()]),
            Way::Trace | Way::Execute => {}
        }
        // A lone name would be searched for in PATH, and by a loader as a library's.
        let is_name = !self.object.as_os_str().as_bytes().contains(&b'/');
        let here = || Path::new(".").join(&self.object).into();
        line.push(if is_name { here() } else { self.object.clone().into() });
        line
    }

    /// The environment of that command line. An emulator hands its own on.
    fn whole_env(&self, extra: &[(OsString, OsString)]) -> Vec<(OsString, OsString)> {
        let traced = matches!(self.way, Way::Trace | Way::TraceBy { .. });
        let trace = traced.then(|| ("LD_TRACE_LOADED_OBJECTS".into(), "1".into()));
        self.env.iter().chain(extra).cloned().chain(trace).collect()
    }
}

/// `NAME=VALUE`.
fn assignment((name, value): &(OsString, OsString)) -> OsString {
    let mut text = name.clone();
    text.push("=");
    text.push(value);
    text
}

/// What can go wrong in a run. A loader that refuses the object is no error: the
/// record says so.
#[derive(Debug, Error)]
pub enum OracleError {
    /// The command could not be started.
    #[error("{}: cannot be started", command.display())]
    Start {
        /// First word of the command line.
        command: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The run did not end in time.
    #[error("{}: no end after {limit:?}", object.display())]
    TooLong {
        /// The object.
        object: PathBuf,
        /// The time it had.
        limit: Duration,
    },
    /// A scratch file could not be made or read.
    #[error("{}: the record of the run cannot be kept", object.display())]
    Scratch {
        /// The object.
        object: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The tracer itself failed.
    #[error("{}: strace failed: {message}", object.display())]
    Tracer {
        /// The object.
        object: PathBuf,
        /// What it said.
        message: String,
    },
}

/// A scratch error's constructor for `map_err`.
fn scratch(object: &Path) -> impl Fn(std::io::Error) -> OracleError + '_ {
    move |source| OracleError::Scratch { object: object.to_owned(), source }
}

#[cfg(test)]
mod tests;
