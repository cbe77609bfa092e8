//! Indexes: the audit modules that a table is put into.

pub use self::built_in::MODULES;

/// The file that the build script writes.
mod built_in {
    include!(concat!(env!("OUT_DIR"), "/modules.rs"));
}
