//! Errors of a measurement.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::trace::TraceError;

/// The kernel's switch (proc_sys_vm(5)).
pub(super) const SWITCH: &str = "/proc/sys/vm/drop_caches";

/// Reason why a start could not be measured.
#[derive(Debug, Error)]
pub enum BenchError {
    /// There is no variant.
    #[error("nothing to measure")]
    Nothing,
    /// The command was not found, could not be started, waited for or traced to its entry point, or
    /// exceeded its time limit.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// [`super::Variant::enter`] failed.
    #[error(transparent)]
    Enter(#[from] Box<dyn Error + Send + Sync>),
    /// The command exited with a code other than 0, or was killed by a signal.
    #[error("{}: {how}{}", command.display(), said.as_ref().map(|s| format!(": {s}")).unwrap_or_default())]
    Failed {
        /// The command.
        command: PathBuf,
        /// The status, for example `exit status: 1`.
        how: String,
        /// The last line of its standard error, if that was read.
        said: Option<String>,
    },
    /// The program has no loader phase, or the entry point was not reached.
    #[error("{}: {why}", command.display())]
    NoEntry {
        /// The command.
        command: PathBuf,
        /// The reason.
        why: &'static str,
    },
    /// The kernel's caches cannot be dropped here.
    #[error(
        "cold starts need the right to drop the kernel's caches (root, outside of a \
         container), or a recorded start (becalm run): {SWITCH}"
    )]
    Caches(#[source] io::Error),
}
