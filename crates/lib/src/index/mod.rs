//! Indexes: making, reading, trusting and writing them, and the audit modules that a table is put into.

pub mod current;
pub mod declining;
pub mod error;
mod existing;
pub mod file;
pub mod make;
pub mod module;
pub mod module_files;
mod options;
pub mod paths;
pub mod places;
mod plan;
pub mod platforms;
pub mod programs;
pub mod report;
pub mod settled;
pub mod variables;

pub use becalm_host::trust;
