//! What a tracer saw of one running program → shares, classes and attributed probes.
//!
//! `becalm-host`'s tracer hands over [`Lookup`]s: system calls that look for a file by
//! name. [`attribute`] joins those of the loader with the model's closure, so that each
//! gets needed_by, needed and source; [`dlopen`] finds the requesters of what the loader
//! searches after the entry point; [`classes`] says who searches once the program runs; [`tally`] counts, in memory that does not grow with the number of calls.

pub mod attribute;
pub mod classes;
pub mod dlopen;
mod offenders;
pub mod tally;

use bstr::{BStr, BString};

use crate::fs::Errno;
use crate::probe::{Call, Outcome};
use crate::record::strace::Attempt;

pub use attribute::{Attributed, attribute};
pub use classes::{Caller, Class};
pub use dlopen::{DlopenProbe, Dlopens, dlopens};

/// A system call that names a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// What was asked about the path.
    pub kind: Kind,
    /// The path, as the program handed it to the kernel.
    pub path: BString,
    /// True where a relative path starts at the current directory, false where it
    /// starts at a directory descriptor.
    pub at_cwd: bool,
    /// The errno; `None` where the call succeeded.
    pub errno: Option<Errno>,
    /// How long it took in nanoseconds, the tracer's own cost subtracted.
    pub ns: u64,
    /// True where the call was made by code of the interpreter: the loader's search,
    /// a `dlopen`. For musl, whose loader is the C library, true until the program's
    /// entry point and false from then on.
    pub by_loader: bool,
}

/// What a call asks about a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

impl Kind {
    /// The word for it, as the rules of [`classes`] name it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Kind::Open => "open",
            Kind::Stat => "stat",
            Kind::Access => "access",
            Kind::Readlink => "readlink",
            Kind::Exec => "exec",
        }
    }
}

impl Lookup {
    /// True where the call failed.
    #[must_use]
    pub fn is_miss(&self) -> bool {
        self.errno.is_some()
    }

    /// The directory part of the path, without its last slash; `/` for a file in the
    /// root, empty for a bare name.
    #[must_use]
    pub fn dir(&self) -> &BStr {
        match self.path.iter().rposition(|byte| *byte == b'/') {
            Some(0) => BStr::new(b"/"),
            Some(slash) => BStr::new(&self.path[..slash]),
            None => BStr::new(b""),
        }
    }

    /// The open or stat that a probe could be; `None` for other calls, for one that starts
    /// at a descriptor, and for an empty path that leads somewhere (a stat of a descriptor).
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

/// One row of the histogram of system calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyscallRow {
    /// Name of the call; `syscall_N` where it is not known here.
    pub name: String,
    /// Calls made.
    pub count: u64,
    /// Those that failed.
    pub errors: u64,
    /// Time in all, in nanoseconds, the tracer's own cost subtracted.
    pub total_ns: u64,
    /// The slowest call, in nanoseconds, likewise.
    pub max_ns: u64,
}
