//! What the trials of a comparison work with.

use std::path::Path;

use crate::compare::program::Program;

/// What trials are made with.
pub(crate) struct Bench<'a> {
    /// A directory for labs.
    pub place: &'a Path,
    /// The program of the table: its loader's variants, its store.
    pub program: &'a Program,
    /// A loader that reads notes and caches.
    pub loader: Option<&'a Path>,
}
