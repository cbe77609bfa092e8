//! The models of the dynamic loaders, and the facts about a loader that a model needs.
//!
//! [`facts`] reads the facts from a loader's diagnostics or from its bytes. [`glibc`] and
//! [`musl`] are the models. [`is_of_c_library`] recognises the libraries of glibc itself.

mod c_library;
pub mod facts;
pub mod glibc;
pub mod load;
pub mod musl;

pub use self::c_library::is_of_c_library;
pub use crate::facts::{
    Environment, GLIBC_RANGE, GlibcVersion, Libc, LoaderFacts, Readers, UnknownLibc,
};
