//! The names of the strategies.

use std::fmt;

use serde::Serialize;

/// The ways to give the loader its answers. Each has one name, in flags and in JSON documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Strategy {
    /// A note in each object, for a loader that reads notes.
    Note,
    /// Absolute paths for needed strings, for any loader.
    Absolute,
    /// One directory of links an object, for any loader.
    Farm,
    /// A loader cache in each package, for a loader that reads those.
    Ldcache,
    /// An index of whole stores, beside them, for any glibc.
    Index,
    /// A DT_AUDIT entry in a program, and an index of its start beside it, for glibc 2.32 on.
    Audit,
}

impl fmt::Display for Strategy {
    /// Writes the name that serde writes.
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(to)
    }
}
