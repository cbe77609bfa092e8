//! The building blocks of a loader's search.
//!
//! [`dst`] expands `$ORIGIN`, `$LIB` and `$PLATFORM`. [`hwcaps`] lists the hwcaps subdirectories.
//! [`loader_cache`] reads and writes `ld.so.cache`. `order` is the order of the search sources.
//! [`store`] defines the directories that cannot change.

pub mod dst;
pub mod hwcaps;
pub mod loader_cache;
pub(crate) mod order;
pub mod store;

pub use store::Stores;
