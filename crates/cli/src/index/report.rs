//! What the command reports.

use becalm_lib::index::module::Sealed;
use becalm_lib::targets::Problem;
use bstr::BString;

/// All that is told of a run.
pub(crate) struct Report {
    /// The file.
    pub path: BString,
    /// The index in it.
    pub sealed: Sealed,
    /// The stores.
    pub stores: Vec<BString>,
    /// Objects whose answers are those of the index that was brought up to date.
    pub kept: usize,
    /// Directories that were to be snapshotted and are not: they changed a moment ago, are not
    /// there, or have hwcaps subdirectories.
    pub unsnapshotted: Vec<BString>,
    /// What could not be read.
    pub problems: Vec<Problem>,
}
