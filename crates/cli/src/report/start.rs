//! A start as the page shows it.

use anyhow::Result;
use becalm_core::cost::SearchCost;
use becalm_core::probe::{Call, Outcome, SearchSource};
use becalm_lib::advice::Advice;
use bstr::BString;

/// What is told of one program. Text is fit to be shown, but not escaped.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    /// The program's path.
    pub path: String,
    /// Machine, C library and interpreter, as far as known.
    pub about: Vec<String>,
    /// What the search costs.
    pub storm: SearchCost,
    /// The C library's release, where it is known.
    pub libc: Option<String>,
    /// What the same start would cost by a glibc without legacy hwcaps subdirectories: its name
    /// and the misses.
    pub newer_glibc: Option<(String, u64)>,
    /// What each strategy would leave; none for a record, whose files may not be here.
    pub advice: Option<Advice>,
    /// True where that was observed, not predicted.
    pub is_record: bool,
    /// What is wrong: unresolved strings, a start that the loader gives up.
    pub faults: Vec<String>,
    /// The probes, in the loader's order.
    pub tries: Vec<Try>,
    /// The objects, the program first.
    pub nodes: Vec<Node>,
    /// What a run showed, or why there was none.
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
    /// What came of it.
    pub outcome: Outcome,
    /// True in a hwcaps subdirectory of the search directory.
    pub of_hwcaps: bool,
}

/// One object of the closure.
#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    /// Its path.
    pub path: BString,
    /// What it asks for.
    pub children: Vec<Child>,
}

/// One needed string of an object.
#[derive(Clone, Debug)]
pub(crate) struct Child {
    /// The string.
    pub needed: BString,
    /// What answers.
    pub answer: Answered,
    /// The misses before that.
    pub misses: u64,
}

/// What answers a needed string.
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

/// What one traced run showed. Times in nanoseconds, the tracer's own share subtracted.
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
    /// What was observed of the loader.
    pub storm: SearchCost,
    /// Whether each probe was predicted; none where there was no prediction.
    pub as_predicted: Option<bool>,
    /// Who looked for what was not there after the entry point, the loader left out: class and
    /// misses.
    pub classes: Vec<(String, u64)>,
    /// Of `program_ns`, the failed opens and stats of `dlopen`.
    pub dlopen_ns: u64,
    /// The probes of `dlopen`, in the loader's order.
    pub dlopens: Vec<Try>,
    /// What a reader should know of the run.
    pub notes: Vec<String>,
}
