//! System calls that look for files, and the positions of their path arguments.

use becalm_core::observe::{Kind, Lookup};
use bstr::BString;

use super::stopped::Stopped;

/// Role of a call for the tracer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Looks for a file.
    Lookup {
        /// Kind of the lookup.
        kind: Kind,
        /// True if the first argument is a directory descriptor and the second the path. If false,
        /// the first argument is the path.
        at: bool,
        /// The index of the flags argument of a stat that also accepts a descriptor: glibc's `fstat` is
        /// `newfstatat(fd, "", …, AT_EMPTY_PATH)`.
        flags: Option<usize>,
    },
    /// Traces a process.
    Ptrace,
    /// Reads the program's CPU affinity. Tracer and program must not share a processor during this
    /// call.
    ReadsAffinity,
    /// Sets the program's CPU affinity, or creates a task that inherits it. Tracer and program must
    /// not share a processor after this call.
    SetsAffinity,
    /// Any other call.
    Other,
}

/// The calls at which the filter stops, by name. A 32-bit name has the same role as its 64-bit
/// equivalent.
const ROLES: [(&str, Role); 28] = [
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
    ("newfstatat", stat_at(3)),
    ("fstatat64", stat_at(3)),
    ("statx", stat_at(2)),
    ("access", path(Kind::Access)),
    ("faccessat", at(Kind::Access)),
    ("faccessat2", at(Kind::Access)),
    ("readlink", path(Kind::Readlink)),
    ("readlinkat", at(Kind::Readlink)),
    ("execve", path(Kind::Exec)),
    ("execveat", at(Kind::Exec)),
    ("uselib", path(Kind::Open)),
    ("ptrace", Role::Ptrace),
    ("clone", Role::SetsAffinity),
    ("clone3", Role::SetsAffinity),
    ("fork", Role::SetsAffinity),
    ("vfork", Role::SetsAffinity),
    ("sched_getaffinity", Role::ReadsAffinity),
    ("sched_setaffinity", Role::SetsAffinity),
];

const fn path(kind: Kind) -> Role {
    Role::Lookup { kind, at: false, flags: None }
}

const fn at(kind: Kind) -> Role {
    Role::Lookup { kind, at: true, flags: None }
}

const fn stat_at(flags: usize) -> Role {
    Role::Lookup { kind: Kind::Stat, at: true, flags: Some(flags) }
}

/// Returns the role of a call by its name.
pub(super) fn role(name: &str) -> Role {
    let known = ROLES.iter().find(|(known, _)| *known == name);
    known.map_or(Role::Other, |(_, role)| *role)
}

/// `AT_EMPTY_PATH`.
pub(super) const AT_EMPTY_PATH: u32 = 0x1000;

/// Returns true for a stat of a descriptor, which looks for no file.
pub(super) fn is_of_descriptor(flags: Option<usize>, args: &[u64; 6]) -> bool {
    let flagged = flags.is_some_and(|at| args[at] as u32 & AT_EMPTY_PATH != 0);
    flagged && !is_cwd(args[0])
}

/// Returns true if a descriptor argument is `AT_FDCWD`. The kernel reads only the lower half, so
/// the upper half may have any value.
fn is_cwd(argument: u64) -> bool {
    argument as u32 == libc::AT_FDCWD as u32
}

/// Reads the arguments of a lookup.
pub(super) fn lookup(
    task: &Stopped,
    kind: Kind,
    at: bool,
    args: &[u64; 6],
    by_loader: bool,
) -> Lookup {
    let path = if at { args[1] } else { args[0] };
    // Since Linux 6.11 `statx` accepts a null pointer as an empty path.
    let path = if path == 0 { BString::default() } else { task.string(path) };
    Lookup { kind, path, at_cwd: !at || is_cwd(args[0]), errno: None, ns: 0, by_loader }
}
