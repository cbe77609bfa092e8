//! Faults in the system calls of a [`Writer`].

use std::path::Path;
use std::sync::Arc;

use crate::write::sys::{Call, Sys};
use crate::write::{WriteOptions, Writer};

/// Effect of a fault on a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::write) enum Verdict {
    /// The call is made.
    Pass,
    /// The call is not made and fails with this error number.
    Fail(i32),
    /// A write writes at most this number of bytes. Any other call is made.
    Short(usize),
}

/// Injects faults into the calls of a [`Writer`], to test crashes, full disks and broken
/// disks.
pub(in crate::write) trait Faults: Send + Sync {
    /// Called before each call on the file `path`.
    fn before(&self, path: &Path, call: Call<'_>) -> Verdict;
}

impl Writer {
    /// Creates a writer that calls `faults` before each system call.
    pub(super) fn with_faults(options: WriteOptions, faults: Arc<dyn Faults>) -> Self {
        Self::on(options, Sys { faults: Some(faults), ..Sys::default() })
    }
}
