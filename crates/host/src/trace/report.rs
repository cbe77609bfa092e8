//! What a traced run gives back: images, shares, how it ended, what to know about it.

use becalm_core::observe::tally::{ClassTally, Missed};
use becalm_core::observe::{Class, Lookup, SyscallRow};
use bstr::BString;

/// A traced run.
#[derive(Debug)]
pub struct Traced {
    /// One element for each successful `execve` of the program, in order; with
    /// [`super::Options::follow`] those of all its processes, and one for each fork
    /// that ran without an `execve` of its own.
    pub images: Vec<Image>,
    /// How the program ended.
    pub exit: Exit,
    /// What watching costs on this machine.
    pub overhead: Calibration,
    /// What a reader should know of this run.
    pub notes: Vec<Note>,
    /// What is still to be looked after; see [`super::Rest`].
    pub rest: Option<super::Rest>,
    /// [`super::Options::supervisor`], to be let go when the report was given.
    pub supervisor: Option<super::Supervisor>,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// With this code.
    Code(u8),
    /// By this signal.
    Signal(i32),
    /// It still runs, no longer watched: [`super::Options::until_entry`].
    Running,
}

impl Exit {
    /// The exit code a shell would report: 128+n for a signal; `None` while it runs.
    #[must_use]
    pub fn code(self) -> Option<u8> {
        match self {
            Exit::Code(code) => Some(code),
            Exit::Signal(signal) => Some(128u8.saturating_add(u8::try_from(signal).unwrap_or(127))),
            Exit::Running => None,
        }
    }
}

/// One program in one process: from an `execve` (or a fork) to the next or the end.
#[derive(Clone, Debug, Default)]
pub struct Image {
    /// The file the kernel runs, links resolved; for a script that of its interpreter.
    pub path: BString,
    /// The path as it was handed to `execve`; that of a script is the script's.
    pub exec_path: BString,
    /// Process id.
    pub pid: u32,
    /// True where the image began with a fork and not with an `execve`.
    pub forked: bool,
    /// True where the entry point was reached: the loader is through.
    pub reached_entry: bool,
    /// The interpreter's path, as the program names it; `None` for a static program.
    pub interpreter: Option<BString>,
    /// From the `execve` to the entry point.
    pub loader: Share,
    /// From the entry point to the end of the image.
    pub program: Share,
    /// The lookups of the loader before the entry point, call by call, in order: what
    /// is to be joined with the model by [`becalm_core::observe::attribute()`]. At most
    /// [`super::Options::max_lookups`].
    pub lookups: Vec<Lookup>,
    /// Lookups of the loader beyond that.
    pub dropped: u64,
    /// Lookups before the entry point that were not the loader's but of the
    /// initialisers of libraries: counted in the loader's share, not kept.
    pub initialisers: u64,
    /// The program's share by who searches, worst first.
    pub classes: Vec<(Class, ClassTally)>,
    /// The lookups of [`Class::Dlopen`], call by call, in order: what
    /// [`becalm_core::observe::dlopens()`] finds the requesters of. At most
    /// [`super::Options::max_lookups`].
    pub dlopens: Vec<Lookup>,
    /// Lookups of that class beyond that.
    pub dlopens_dropped: u64,
    /// The program's environment, as far as a loader or a class looks at it: `LD_*`,
    /// `GLIBC_TUNABLES`, `BECALM` and [`becalm_core::observe::classes::VARIABLES`].
    pub environment: Vec<(BString, BString)>,
    /// `AT_SECURE`: the loader is in secure-execution mode.
    pub secure: bool,
}

/// What one phase of an image cost.
#[derive(Clone, Debug, Default)]
pub struct Share {
    /// Calls by name, the most time first: those that look for files, or all of them
    /// with [`super::Options::all_syscalls`].
    pub histogram: Vec<SyscallRow>,
    /// Lookups that succeeded.
    pub hits: u64,
    /// Lookups that failed, and what they took.
    pub missed: Missed,
    /// Time from the first to the last moment of the phase in nanoseconds, as the clock
    /// on the wall tells it, tracer and all.
    pub wall_ns: u64,
    /// How much of `wall_ns` was the tracer's, as far as [`Calibration`] can tell.
    pub tracer_ns: u64,
}

impl Share {
    /// The time of the phase without the tracer, in nanoseconds.
    #[must_use]
    pub fn net_ns(&self) -> u64 {
        self.wall_ns.saturating_sub(self.tracer_ns)
    }
}

/// What watching costs, measured on calls of `getppid`: before the run with tracer and
/// program on one processor, as they are while it starts; once they no longer are,
/// wherever the kernel puts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calibration {
    /// The part of one call's measured time that is the tracer's, in nanoseconds: it
    /// is subtracted from each.
    pub call_ns: u64,
    /// What a watched call costs more than one that is not watched, in nanoseconds.
    pub cycle_ns: u64,
    /// As `call_ns`, wherever the two run; 0 where that was never needed.
    pub apart_call_ns: u64,
    /// As `cycle_ns`, likewise.
    pub apart_cycle_ns: u64,
    /// Calls measured, in each of the two.
    pub samples: u32,
}

impl Calibration {
    /// This one, made on one processor, with one made anywhere.
    pub(super) fn with(self, apart: Calibration) -> Calibration {
        Calibration { apart_call_ns: apart.call_ns, apart_cycle_ns: apart.cycle_ns, ..self }
    }

    /// True once it was measured wherever the two run.
    pub(super) fn has_apart(&self) -> bool {
        self.apart_cycle_ns != 0
    }
}

/// What a reader should know of a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Note {
    /// The kernel gives no set-id or file-capability rights to a program that is
    /// watched by one who has no right to watch it.
    PrivilegesDropped {
        /// The program.
        path: BString,
    },
    /// The program wanted to watch itself or another (`ptrace`); what is watched
    /// already cannot be watched again, and it was told `EPERM`.
    TracesItself {
        /// Its process id.
        pid: u32,
    },
    /// No filter could be installed; every system call stopped, at more cost.
    NoFilter {
        /// Errno.
        errno: i32,
    },
    /// The filter was installed under `no_new_privs`, as it has to be without
    /// `CAP_SYS_ADMIN`.
    NoNewPrivileges,
    /// The loader was started as a program (`ld.so PROGRAM`): its work is not told
    /// apart from the program's.
    LoaderAsProgram {
        /// The loader.
        path: BString,
    },
    /// A 32-bit program.
    ThirtyTwoBit {
        /// The program.
        path: BString,
    },
    /// Calls of an architecture that is not decoded were not counted.
    Undecoded {
        /// `AUDIT_ARCH_*` of `<linux/audit.h>`.
        arch: u32,
    },
    /// Processes of the program still run; see [`super::Rest`].
    LeftRunning {
        /// How many.
        processes: usize,
    },
    /// The entry point could not be watched: all is in the program's share.
    NoEntry {
        /// The program.
        path: BString,
    },
}
