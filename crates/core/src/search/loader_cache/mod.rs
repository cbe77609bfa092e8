//! `ld.so.cache`: the loader cache, read as the loader of any architecture reads it.
//!
//! [`read`] accepts the formats and gives checked access to the entries; [`lookup`]
//! answers a needed string as a given release of glibc would. The search model asks
//! here after the run paths and before the system directories.

pub mod lookup;
pub mod read;

pub use lookup::CacheQuery;
pub use read::{CacheEntry, LoaderCache};

#[cfg(test)]
pub(crate) mod build;
