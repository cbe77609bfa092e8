//! What is watched of a run.

use std::ffi::OsString;

use crate::assume::{Readable, StorePrefixes};

/// What is run, and what is watched of it.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program to run, and its arguments.
    pub command: Vec<OsString>,
    /// Whether every system call stops, for a histogram of all of them.
    pub all_syscalls: bool,
    /// Whether the processes that the program starts are counted as well.
    pub follow: bool,
    /// Whether the watch ends at the entry point of the first program.
    pub until_entry: bool,
    /// What loaders are taken to read beyond what released ones do; empty for what each loader's
    /// file says.
    pub reads: Vec<Readable>,
    /// The store prefixes.
    pub store: StorePrefixes,
}
