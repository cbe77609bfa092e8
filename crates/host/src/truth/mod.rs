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
    /// Run as this user, without supplementary groups; needs root.
    pub user: Option<User>,
    /// The current directory.
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
    /// `LOADER --list OBJECT`: libraries, programs whose own interpreter is not
    /// wanted, and musl. `$ORIGIN` of a symlinked program is then another one.
    List {
        /// The loader.
        loader: PathBuf,
    },
    /// The program runs. For fixtures made here.
    Execute,
    /// `chroot SYSROOT EMULATOR LOADER --list OBJECT`: a foreign architecture under
    /// qemu-user. Paths other than `sysroot` are inside it.
    Foreign {
        /// The other root.
        sysroot: PathBuf,
        /// A static qemu-user, inside the sysroot.
        emulator: PathBuf,
        /// The loader, inside the sysroot.
        loader: PathBuf,
    },
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

    /// The command line that makes the loader list the object, `extra` added to its
    /// environment where the command line carries that (under an emulator).
    fn command_line(&self, extra: &[(OsString, OsString)]) -> Vec<OsString> {
        let object = self.object.clone().into_os_string();
        match &self.way {
            Way::Trace | Way::Execute => vec![object],
            Way::List { loader } => vec![loader.into(), "--list".into(), object],
            Way::Foreign { sysroot, emulator, loader } => {
                let mut line: Vec<OsString> =
                    vec!["/usr/sbin/chroot".into(), sysroot.into(), emulator.into()];
                for variable in self.env.iter().chain(extra) {
                    line.push("-E".into());
                    line.push(assignment(variable));
                }
                line.extend([loader.into(), "--list".into(), object]);
                line
            }
        }
    }

    /// The environment of the command line itself.
    fn direct_env(&self, extra: &[(OsString, OsString)]) -> Vec<(OsString, OsString)> {
        if matches!(self.way, Way::Foreign { .. }) {
            return Vec::new();
        }
        let trace =
            (self.way == Way::Trace).then(|| ("LD_TRACE_LOADED_OBJECTS".into(), "1".into()));
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
pub enum TruthError {
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
fn scratch(object: &Path) -> impl Fn(std::io::Error) -> TruthError + '_ {
    move |source| TruthError::Scratch { object: object.to_owned(), source }
}

#[cfg(test)]
mod tests;
