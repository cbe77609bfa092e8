//! Result of a traced run: its images, their shares, its end and its notes.

pub use super::exit::Exit;
use becalm_core::lossy::lossy;
use becalm_core::observe::offenders::first;
use becalm_core::observe::tally::{ClassLookups, Missed};
use becalm_core::observe::{Class, Lookup, SyscallRow};
use bstr::BString;
use serde::{Deserialize, Serialize};

/// A traced run.
#[derive(Debug)]
pub struct Traced {
    /// One element for each successful `execve` of the program, in order. With
    /// [`super::Options::follow`] this includes all child processes, and one element for each fork
    /// that ran without an `execve` of its own.
    pub images: Vec<Image>,
    /// The program's end.
    pub exit: Exit,
    /// The cost of tracing on this machine.
    pub overhead: Overhead,
    /// The same with program and tracer on different processors; `None` if it was never needed.
    pub apart: Option<Overhead>,
    /// Facts that a reader of the result needs to know.
    pub notes: Vec<Note>,
    /// The processes that still need this tracer; see [`super::Rest`].
    pub rest: Option<super::Rest>,
    /// The supervisor from [`super::Options::supervisor`], to be released after the report was
    /// printed.
    pub supervisor: Option<super::Supervisor>,
}

/// One program in one process, from an `execve` or a fork to the next `execve` or the end.
#[derive(Clone, Debug, Default)]
pub struct Image {
    /// The file that the kernel executes, with symbolic links resolved. For a script this is its
    /// interpreter.
    pub path: BString,
    /// The path passed to `execve`. For a script this is the script's path.
    pub exec_path: BString,
    /// Process id.
    pub pid: u32,
    /// Time from the begin of the first image to that of this one, in nanoseconds.
    pub began_ns: u64,
    /// True if the image began with a fork and not with an `execve`.
    pub forked: bool,
    /// True if the entry point was reached, so that the loader has finished.
    pub reached_entry: bool,
    /// The interpreter's path in the program's `PT_INTERP`; `None` for a static program.
    pub interpreter: Option<BString>,
    /// The share from the `execve` to the entry point.
    pub loader: Share,
    /// The share from the entry point to the end of the image.
    pub program: Share,
    /// The loader's lookups before the entry point, in order, for
    /// [`becalm_core::observe::attribute()`] to join with the model. At most
    /// [`super::MAX_LOOKUPS`].
    pub lookups: Vec<Lookup>,
    /// Number of the loader's lookups beyond that limit.
    pub dropped: u64,
    /// Number of lookups before the entry point that initialisers of libraries made. They count in
    /// the loader's share and are not kept.
    pub initialisers: u64,
    /// The program's lookups by class, most misses first.
    pub classes: Vec<ClassLookups>,
    /// The lookups of [`Class::Dlopen`], in order, for [`becalm_core::observe::dlopens()`] to
    /// attribute to requesters. At most [`super::MAX_LOOKUPS`].
    pub dlopens: Vec<Lookup>,
    /// Number of lookups of that class beyond that limit.
    pub dlopens_dropped: u64,
    /// The absolute paths that the program opened after its entry point, each once, in order: files and
    /// directories, without the libraries that its loader opened. Empty without [`super::Options::opened`]; at most
    /// [`super::MAX_LOOKUPS`].
    pub opened: Vec<BString>,
    /// All lookups, in the order of their ends. Empty without [`super::Options::timeline`]; at most
    /// [`super::MAX_LOOKUPS`].
    pub timeline: Vec<TimedLookup>,
    /// The environment variables that a loader or a class reads: `LD_*`, `GLIBC_TUNABLES`, `BECALM`
    /// and those of a rule ([`becalm_core::observe::classes::is_used`]).
    pub environment: Vec<(BString, BString)>,
    /// `AT_SECURE`: the loader runs in secure-execution mode.
    pub secure: bool,
    /// Its waits for pages that were not in memory; `None` if they were not measured
    /// ([`super::Options::pages`], [`Note::PagesNotMeasured`]).
    pub pages: Option<Pages>,
}

/// A lookup and its place in the image's time.
#[derive(Clone, Debug)]
pub struct TimedLookup {
    /// The thread's id.
    pub task: u32,
    /// Time from the begin of the image without the tracer's part, in nanoseconds.
    pub at_ns: u64,
    /// The class of a lookup after the entry point.
    pub class: Option<Class>,
    /// The lookup.
    pub lookup: Lookup,
}

/// The waits for pages that were not in memory: page faults that are major, or that sleep for a page of a
/// file because it is being read already; from the fault to its end. Waits in system calls, as in `read` and
/// `open`, are not among them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pages {
    /// Their number.
    pub waits: u64,
    /// The time in which at least one thread waited, in seconds.
    pub seconds: f64,
    /// The files of the pages, the most time first, the worst 50.
    #[serde(serialize_with = "first")]
    pub files: Vec<FileWaits>,
}

/// The waits for pages of one file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileWaits {
    /// The file.
    #[serde(serialize_with = "lossy")]
    pub path: BString,
    /// Their number.
    pub waits: u64,
    /// The sum of their times in seconds.
    pub seconds: f64,
}

/// Calls and time of one phase. Times are in nanoseconds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Share {
    /// The time without the tracer's part.
    pub net_ns: u64,
    /// The time on the clock.
    pub wall_ns: u64,
    /// The tracer's part of it, estimated.
    pub tracer_ns: u64,
    /// The number of calls.
    pub calls: u64,
    /// The number of lookups that succeeded.
    pub hits: u64,
    /// The lookups that failed, and the time they took.
    pub missed: Missed,
    /// The calls by name, the most time first.
    pub syscalls: Vec<SyscallRow>,
}

/// The cost of tracing, in nanoseconds.
///
/// It is measured on calls of `getppid`: before the run with tracer and program on one processor, and once more
/// when they no longer share a processor ([`Traced::apart`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Overhead {
    /// Time that is subtracted from each call.
    pub call_ns: u64,
    /// Time that is subtracted from a share for each call.
    pub cycle_ns: u64,
    /// The number of calls that were measured.
    pub samples: u32,
}

/// A fact that a reader of the result needs to know.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Note {
    /// A property of a program.
    OfProgram {
        /// The program.
        path: BString,
        /// The property in words.
        what: &'static str,
    },
    /// The program called `ptrace`. A traced process cannot be traced again, so the call failed
    /// with `EPERM`.
    TracesItself {
        /// Its process id.
        pid: u32,
    },
    /// No filter could be installed. Every system call stopped, which costs more.
    NoFilter {
        /// Errno.
        errno: i32,
    },
    /// The filter was installed under `no_new_privs`, which the kernel requires without
    /// `CAP_SYS_ADMIN`.
    NoNewPrivileges,
    /// The program made calls of an architecture that is not decoded. They were not counted.
    Undecoded {
        /// `AUDIT_ARCH_*` of `<linux/audit.h>`.
        arch: u32,
    },
    /// Processes of the program are still running; see [`super::Rest`].
    LeftRunning {
        /// Their number.
        processes: usize,
    },
    /// The kernel does not report page faults here ([`super::Options::pages`]), and some waited for a page.
    PagesNotMeasured {
        /// The errno of `perf_event_open`.
        errno: i32,
        /// Number of page faults that waited, of the program and the processes that it waited for.
        waits: u64,
    },
    /// The program made page faults faster than they could be counted.
    PagesLost {
        /// Number of lost events.
        events: u64,
    },
}
