//! The loader cache (`ld.so.cache`) of any architecture.
//!
//! [`read`] parses the formats and checks every access to an entry. [`lookup`] finds the answer to
//! a needed string by the rules of a glibc release. [`write`](mod@write) makes a cache.

pub mod lookup;
pub mod read;
pub mod write;

pub use lookup::CacheQuery;
pub use read::{CacheEntry, LoaderCache, NEW_MAGIC};
pub use write::{NewEntry, write};
