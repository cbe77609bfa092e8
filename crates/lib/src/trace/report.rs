//! The report of `becalm trace`.

use std::ffi::OsString;

use becalm_core::cost::{Offenders, SearchCost};
use becalm_core::observe::Dlopens;
use becalm_core::probe::Probe;
use becalm_host::trace::{Calibration, Exit, Image};
use bstr::BString;

use crate::beside::Beside;
use crate::check::Program;

/// All that is told of a run.
#[derive(Debug)]
pub struct Report {
    /// The command line.
    pub command: Vec<OsString>,
    /// The images, the program last.
    pub images: Vec<Seen>,
    /// How the program ended; [`Exit::Running`] where it is no longer watched.
    pub exit: Exit,
    /// The overhead of watching here; `None` if nothing was watched.
    pub overhead: Option<Calibration>,
    /// Remarks for a reader, a sentence each.
    pub notes: Vec<String>,
    /// True where every system call was counted.
    pub all_syscalls: bool,
    /// True where opens alone were seen: the program ran untraced.
    pub opens_alone: bool,
}

/// One image, with what the model says of it.
#[derive(Debug)]
pub struct Seen {
    /// The observed image.
    pub image: Image,
    /// The program's path: as it was asked for, where that is the program itself.
    pub path: BString,
    /// The result of `becalm check` for it, or the reason why there is none.
    pub program: Result<Program, String>,
    /// The loader's probes, attributed.
    pub probes: Vec<Probe>,
    /// Their counts.
    pub storm: SearchCost,
    /// Time of its misses in nanoseconds, the tracer's own cost subtracted.
    pub storm_ns: u64,
    /// The causes of the misses.
    pub worst: Offenders,
    /// The searches of the loader after the entry point.
    pub dlopens: Dlopens,
    /// Prediction beside observation, where there is a prediction.
    pub beside: Option<Beside>,
}
