//! Why a start could not be measured.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

use crate::mount_namespace::MountNamespaceError;
use crate::trace::TraceError;

/// Why a start could not be measured.
#[derive(Debug, Error)]
pub enum BenchError {
    /// There is no variant.
    #[error("nothing to measure")]
    Nothing,
    /// The command was not found, or could not be watched up to its entry point.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The room that it is to be run in cannot be entered.
    #[error(transparent)]
    MountNamespace(#[from] MountNamespaceError),
    /// The command could not be started or waited for.
    #[error("{}: cannot be started", command.display())]
    Start {
        /// The command.
        command: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It ended with an exit code other than 0, or by a signal.
    #[error("{}: {how}{}", command.display(), said.as_ref().map(|s| format!(": {s}")).unwrap_or_default())]
    Failed {
        /// The command.
        command: PathBuf,
        /// How it ended, as `exit status: 1`.
        how: String,
        /// The last line of what it wrote to its standard error, where it was listened to.
        said: Option<String>,
    },
    /// It did not end in time, and was killed.
    #[error("{}: did not end within {} s and was killed", command.display(), limit.as_secs_f64())]
    TooLong {
        /// The command.
        command: PathBuf,
        /// The time.
        limit: Duration,
    },
    /// Nothing comes before its entry point, or the entry point was not reached.
    #[error("{}: {why}", command.display())]
    NoEntry {
        /// The command.
        command: PathBuf,
        /// Why.
        why: &'static str,
    },
    /// The kernel's caches cannot be dropped here.
    #[error(
        "cold starts need the right to drop the kernel's caches (root, outside of a \
         container): {switch}"
    )]
    Caches {
        /// The file that has to be written.
        switch: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}
