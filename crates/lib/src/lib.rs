//! becalm-lib: what becalm's commands do, below their arguments and their output.
//!
//! [`index::MODULES`] are the audit modules that an index is put into, compiled from `audit/` by
//! the build script. [`loader::Release`] names the glibc releases that `patches/glibc/` has a
//! patch for.

pub mod index;
pub mod loader;
