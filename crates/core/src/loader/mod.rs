//! The loaders: which facts describe one, and the models built on them.
//!
//! [`facts`] finds the facts in what a loader prints or in its bytes; [`glibc`] and
//! [`musl`] are the models. [`is_of_c_library`] knows what belongs to glibc itself.

mod c_library;
pub mod facts;
pub mod glibc;
pub mod load;
pub mod musl;

pub use self::c_library::is_of_c_library;
pub use crate::facts::{
    Environment, GLIBC_RANGE, GlibcVersion, Libc, LoaderFacts, Readers, UnknownLibc,
};
