//! An in-memory file system for unit tests: files, directories, links, modes.

/// To be written.
#[derive(Debug, Default)]
pub struct MemFs {}
