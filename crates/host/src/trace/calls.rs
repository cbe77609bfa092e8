//! Which system calls look for files, and where among their arguments the path is.

use becalm_core::observe::{Kind, Lookup};
use bstr::BString;

use super::stopped::Stopped;

/// What a call means to the tracer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// It looks for a file.
    Lookup {
        /// What it asks.
        kind: Kind,
        /// Index of the directory descriptor, where it takes one; the path follows it.
        /// Else the path is the first argument.
        at: bool,
    },
    /// It watches a process.
    Ptrace,
    /// It asks where the program may run: tracer and program must not be kept together while it
    /// is answered.
    AsksPlacement,
    /// It says where the program may run, or makes what inherits that: tracer and program must
    /// no longer be kept together.
    Placement,
    /// Anything else.
    Other,
}

/// The calls that look for files and the others to stop at, by name. A 32-bit name says the same as
/// its 64-bit one.
const MEANINGS: [(&str, Meaning); 28] = [
    ("open", path(Kind::Open)),
    ("creat", path(Kind::Open)),
    ("openat", at(Kind::Open)),
    ("openat2", at(Kind::Open)),
    ("stat", path(Kind::Stat)),
    ("lstat", path(Kind::Stat)),
    ("stat64", path(Kind::Stat)),
    ("lstat64", path(Kind::Stat)),
    ("oldstat", path(Kind::Stat)),
    ("oldlstat", path(Kind::Stat)),
    ("newfstatat", at(Kind::Stat)),
    ("fstatat64", at(Kind::Stat)),
    ("statx", at(Kind::Stat)),
    ("access", path(Kind::Access)),
    ("faccessat", at(Kind::Access)),
    ("faccessat2", at(Kind::Access)),
    ("readlink", path(Kind::Readlink)),
    ("readlinkat", at(Kind::Readlink)),
    ("execve", path(Kind::Exec)),
    ("execveat", at(Kind::Exec)),
    ("uselib", path(Kind::Open)),
    ("ptrace", Meaning::Ptrace),
    ("clone", Meaning::Placement),
    ("clone3", Meaning::Placement),
    ("fork", Meaning::Placement),
    ("vfork", Meaning::Placement),
    ("sched_getaffinity", Meaning::AsksPlacement),
    ("sched_setaffinity", Meaning::Placement),
];

const fn path(kind: Kind) -> Meaning {
    Meaning::Lookup { kind, at: false }
}

const fn at(kind: Kind) -> Meaning {
    Meaning::Lookup { kind, at: true }
}

/// The meaning of a call by its name.
pub(super) fn meaning(name: &str) -> Meaning {
    let known = MEANINGS.iter().find(|(known, _)| *known == name);
    known.map_or(Meaning::Other, |(_, meaning)| *meaning)
}

/// `AT_EMPTY_PATH`.
pub(super) const AT_EMPTY_PATH: u32 = 0x1000;

/// Index of the flags among the arguments of a stat that may be one of a descriptor:
/// glibc's `fstat` is `newfstatat(fd, "", …, AT_EMPTY_PATH)`.
pub(super) fn stat_flags(name: &str) -> Option<usize> {
    match name {
        "newfstatat" | "fstatat64" => Some(3),
        "statx" => Some(2),
        _ => None,
    }
}

/// True for a stat of a descriptor, which looks for no file.
pub(super) fn is_of_descriptor(stat_flags: Option<usize>, args: &[u64; 6]) -> bool {
    let flagged = stat_flags.is_some_and(|at| args[at] as u32 & AT_EMPTY_PATH != 0);
    flagged && !is_cwd(args[0])
}

/// True where a descriptor argument stands for the current directory: `AT_FDCWD` in
/// the lower half, whatever a program left in the upper one.
fn is_cwd(argument: u64) -> bool {
    argument as u32 == libc::AT_FDCWD as u32
}

/// Reads a lookup's arguments.
pub(super) fn lookup(
    task: &Stopped,
    kind: Kind,
    at: bool,
    args: &[u64; 6],
    by_loader: bool,
) -> Lookup {
    let path = if at { args[1] } else { args[0] };
    let path = if path == 0 { BString::default() } else { task.string(path) };
    Lookup { kind, path, at_cwd: !at || is_cwd(args[0]), errno: None, ns: 0, by_loader }
}
