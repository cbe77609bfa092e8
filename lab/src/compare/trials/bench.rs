//! Inputs of the trials of a comparison.

use std::path::Path;

use becalm_lib::compare::program::Program;

/// Inputs of the trials.
pub(in crate::compare) struct Bench<'a> {
    /// A directory for labs.
    pub place: &'a Path,
    /// The program of the table, for its hwcaps subdirectories and its store.
    pub program: &'a Program,
    /// A loader that reads notes and caches.
    pub loader: Option<&'a Path>,
}
