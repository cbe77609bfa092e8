//! A start as the page shows it.

use anyhow::Result;
use becalm_core::cost::SearchCost;
use becalm_core::probe::{Call, Outcome, SearchSource};
use becalm_lib::advice::Advice;
use bstr::BString;

/// Data of one program. Text is printable, but not escaped.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    /// The program's path.
    pub path: String,
    /// Machine, C library and interpreter, as far as known.
    pub about: Vec<String>,
    /// Cost of the search.
    pub storm: SearchCost,
    /// The C library's release, where it is known.
    pub libc: Option<String>,
    /// A glibc without legacy hwcaps subdirectories and the misses of the same start with it: its
    /// name and the count.
    pub newer_glibc: Option<(String, u64)>,
    /// Effect of each strategy; none for a record, whose files may not be here.
    pub advice: Option<Advice>,
    /// True where that was observed, not predicted.
    pub is_record: bool,
    /// Faults: unresolved strings, a start that the loader gives up.
    pub faults: Vec<String>,
    /// The probes, in the loader's order.
    pub tries: Vec<Try>,
    /// The objects, the program first.
    pub nodes: Vec<Node>,
    /// Results of a run, or why there was none.
    pub observed: Result<Observed, String>,
}

/// One probe, and where in the picture it belongs.
#[derive(Clone, Debug)]
pub(crate) struct Try {
    /// Path of the asking object.
    pub needed_by: BString,
    /// The needed string.
    pub needed: BString,
    /// The search directory; none where no directory was searched.
    pub dir: Option<BString>,
    /// The rule that supplied it.
    pub source: SearchSource,
    /// Which call.
    pub call: Call,
    /// Result of the call.
    pub outcome: Outcome,
    /// True in a hwcaps subdirectory of the search directory.
    pub of_hwcaps: bool,
}

/// One object of the closure.
#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    /// Its path.
    pub path: BString,
    /// Its needed strings.
    pub children: Vec<Child>,
}

/// One needed string of an object.
#[derive(Clone, Debug)]
pub(crate) struct Child {
    /// The string.
    pub needed: BString,
    /// The answer.
    pub answer: Answered,
    /// The misses before that.
    pub misses: u64,
}

/// Answer to a needed string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answered {
    /// This object, loaded for it.
    Loaded(usize, SearchSource),
    /// This object, loaded before.
    Before(usize),
    /// Nothing.
    Missing,
    /// Nothing, and nothing has to.
    None,
}

/// Results of one traced run. Times in nanoseconds, the tracer's own share subtracted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observed {
    /// The command line.
    pub command: String,
    /// From the `execve` to the entry point.
    pub loader_ns: u64,
    /// Of that, the failed opens and stats of the search.
    pub storm_ns: u64,
    /// From the entry point to the end.
    pub program_ns: u64,
    /// Cost of the loader's search, as observed.
    pub storm: SearchCost,
    /// Whether each probe was predicted; none where there was no prediction.
    pub as_predicted: Option<bool>,
    /// Misses after the entry point, those of the loader excluded: class of search and count.
    pub classes: Vec<(String, u64)>,
    /// Of `program_ns`, the failed opens and stats of `dlopen`.
    pub dlopen_ns: u64,
    /// The probes of `dlopen`, in the loader's order.
    pub dlopens: Vec<Try>,
    /// Notes on the run for the reader.
    pub notes: Vec<String>,
}
