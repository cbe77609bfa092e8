//! Options of a traced run.

use crate::assume::StorePrefixes;
use becalm_core::strategy::Strategy;

/// The extent of the trace.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// True if every system call stops, for a histogram of all of them.
    pub all_syscalls: bool,
    /// True if the processes that the program starts are traced as well.
    pub follow: bool,
    /// True if tracing ends at the entry point of the first program.
    pub until_entry: bool,
    /// True if a run with a limit ends at the program's first idle moment as well ([`becalm_host::idle`]).
    pub until_idle: bool,
    /// True if the program is started a few times more, up to its entry point, to time its relocation. These
    /// starts come after the traced one.
    pub relocations: bool,
    /// True if the files that the program opens after its entry point are recorded, to be read ahead
    /// of its next start ([`crate::ahead`]).
    pub record: bool,
    /// True if the files that each program uses are listed.
    pub files: bool,
    /// True if the lookups are kept with their times.
    pub timeline: bool,
    /// True if the files are known not to be in memory: page faults that wait for a page that is being read
    /// already are counted from the begin, and not only after the first major one.
    pub cold: bool,
    /// Strategies that loaders are assumed to read, `note` and `ldcache`; none for those that each
    /// loader's file declares.
    pub reads: Option<Vec<Strategy>>,
    /// The store prefixes.
    pub store: StorePrefixes,
}
