//! The strategies, a row each.

use std::fmt;

use serde::Serialize;

use super::row::Row;
use super::{absolute, farm, index, ldcache, note};

/// Declares [`Strategy`] by the rows of the strategies.
macro_rules! strategies {
    ($($(#[$doc:meta])* $name:ident = $row:path,)*) => {
        /// The ways to give the loader its answers. Each has one name, in flags and in JSON
        /// documents.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(rename_all = "kebab-case")]
        #[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
        pub enum Strategy {
            $($(#[$doc])* $name,)*
        }

        impl Strategy {
            /// All of them. Of two that leave the same, the first one changes less.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Returns what the commands know of it.
            #[must_use]
            pub const fn row(self) -> &'static Row {
                match self {
                    $(Self::$name => &$row,)*
                }
            }
        }
    };
}

strategies! {
    /// An index of whole stores, beside them, for any glibc.
    Index = index::STORES,
    /// A DT_AUDIT entry in a program, and an index of its start beside it, for glibc 2.32 on.
    Audit = index::PROGRAM,
    /// One directory of links an object, for any loader.
    Farm = farm::ROW,
    /// Absolute paths for needed strings, for any loader.
    Absolute = absolute::ROW,
    /// A note in each object, for a loader that reads notes.
    Note = note::ROW,
    /// A loader cache in each package, for a loader that reads those.
    Ldcache = ldcache::ROW,
}

impl fmt::Display for Strategy {
    /// Writes the name that serde writes.
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(to)
    }
}
