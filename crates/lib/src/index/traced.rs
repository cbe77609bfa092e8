//! Input of `becalm index --paths-from`, which [`crate::traced_run`] reads.

use std::path::PathBuf;

use becalm_host::path_table::PathStore;
use bstr::BString;

/// Programs and directories of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traced {
    /// The programs that it started, in order, each once.
    pub programs: Vec<PathBuf>,
    /// The packages that it searched, by store.
    pub stores: Vec<PathStore>,
    /// The directories that it searched and that are in no package, those with the most misses first.
    pub outside: Vec<BString>,
}
