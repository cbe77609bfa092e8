//! The parts a loader's search is made of.
//!
//! [`dst`] expands `$ORIGIN` and its like, [`hwcaps`] lists the hwcaps
//! subdirectories, [`loader_cache`] reads `ld.so.cache`, [`store`] says which directories cannot
//! change.

pub mod dst;
pub mod hwcaps;
pub mod loader_cache;
pub mod store;

pub use store::Stores;
