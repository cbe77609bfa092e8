//! Attributes and classifies the lookups of one traced program.
//!
//! `becalm-host`'s tracer records [`Lookup`]s: system calls with a file name. [`attribute()`] joins those
//! of the loader with the model's closure, so that each gets a requester, a needed string and a search
//! source. [`dlopen`] infers the requesters of the loader's lookups after the entry point. [`classes`]
//! classifies the program's own lookups. [`tally`] counts them in bounded memory.

pub mod attribute;
pub mod classes;
pub mod dlopen;
pub mod offenders;
pub mod tally;

use bstr::BString;
use serde::{Deserialize, Serialize};

use crate::fs::Errno;
use crate::probe::{Attempt, Call, Outcome};

pub use attribute::{Attributed, attribute};
pub use classes::{Caller, Class};
pub use dlopen::{Dlopen, DlopenProbe, dlopens};

/// A system call that names a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// The kind of the call.
    pub kind: Kind,
    /// The path in the system call.
    pub path: BString,
    /// True if a relative path starts at the current directory, false if it starts at a directory
    /// descriptor.
    pub at_cwd: bool,
    /// The errno. `None` if the call succeeded.
    pub errno: Option<Errno>,
    /// The duration in nanoseconds, without the tracer's own cost.
    pub ns: u64,
    /// True if code of the interpreter made the call, for the loader's search or a `dlopen`. musl's
    /// loader is the C library, so for musl the flag is true up to the program's entry point and false
    /// after it.
    pub by_loader: bool,
}

/// The kind of a call with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// `open`, `openat`, `openat2`, `creat`.
    Open,
    /// `stat`, `lstat`, `newfstatat`, `statx` and their 32-bit forms.
    Stat,
    /// `access`, `faccessat`, `faccessat2`.
    Access,
    /// `readlink`, `readlinkat`.
    Readlink,
    /// `execve`, `execveat`.
    Exec,
}

impl Lookup {
    /// Returns true if the call failed.
    #[must_use]
    pub fn is_miss(&self) -> bool {
        self.errno.is_some()
    }

    /// Returns the call as an attempt if it can be a probe. Other calls than open and stat cannot, nor
    /// calls with a directory descriptor, nor a successful call with an empty path, which is a stat of
    /// a descriptor.
    #[must_use]
    pub fn attempt(&self) -> Option<Attempt> {
        let call = match self.kind {
            Kind::Open => Call::Open,
            Kind::Stat => Call::Stat,
            Kind::Access | Kind::Readlink | Kind::Exec => return None,
        };
        let of_descriptor = self.path.is_empty() && !self.is_miss();
        if of_descriptor || !(self.at_cwd || self.path.starts_with(b"/")) {
            return None;
        }
        let outcome = self.errno.map_or(Outcome::Hit, Outcome::from);
        Some(Attempt { call, path: self.path.clone(), outcome })
    }
}

/// The calls of one name. Times are in nanoseconds, the tracer's own cost subtracted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SyscallRow {
    /// The name.
    ///
    /// It is `syscall_N` if it is not known.
    pub name: String,
    /// The number of calls.
    pub count: u64,
    /// The number of failed ones.
    pub errors: u64,
    /// Their time.
    pub total_ns: u64,
    /// The time of the slowest.
    pub max_ns: u64,
}
