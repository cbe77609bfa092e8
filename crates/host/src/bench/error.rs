//! Errors of a measurement.

use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

use crate::trace::TraceError;

/// Reason why a start could not be measured.
#[derive(Debug, Error)]
pub enum BenchError {
    /// There is no variant.
    #[error("nothing to measure")]
    Nothing,
    /// The command was not found, or could not be traced to its entry point.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// [`super::Variant::enter`] failed.
    #[error(transparent)]
    Enter(#[from] Box<dyn Error + Send + Sync>),
    /// The command could not be started or waited for.
    #[error("{}: cannot be started", command.display())]
    Start {
        /// The command.
        command: PathBuf,
        /// The error of the system call.
        #[source]
        source: io::Error,
    },
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
    /// The command exceeded its time limit and was killed.
    #[error("{}: did not end within {} s and was killed", command.display(), limit.as_secs_f64())]
    TooLong {
        /// The command.
        command: PathBuf,
        /// The time limit.
        limit: Duration,
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
         container), or a recorded start (becalm run): {switch}"
    )]
    Caches {
        /// The file that must be writable.
        switch: &'static str,
        /// The error of the system call.
        #[source]
        source: io::Error,
    },
}
