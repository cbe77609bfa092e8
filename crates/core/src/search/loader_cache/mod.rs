//! `ld.so.cache`: the loader cache, read as the loader of any architecture reads it.
//!
//! [`read`] accepts the formats and gives checked access to the entries; [`lookup`] answers a
//! needed string as a given release of glibc would, [`write`](mod@write) makes one. The search
//! model asks here after the run paths and before the system directories.

pub mod lookup;
pub mod read;
pub mod write;

pub use lookup::CacheQuery;
pub use read::{CacheEntry, LoaderCache};
pub use write::{NewEntry, write};

#[cfg(test)]
pub(crate) mod build;
