//! The reasons why strategies cannot be compared, or one of them cannot be tested.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::mount_namespace::MountNamespaceError;
use becalm_host::bench::BenchError;
use rayon::ThreadPoolBuildError;
use thiserror::Error;

use becalm_lib::trace::refused::ObserveError;

/// The reason why strategies cannot be compared, or one of them cannot be tested.
#[derive(Debug, Error)]
pub(crate) enum CompareError {
    /// A file cannot be read, copied or made, the program cannot be compared, or a strategy not be planned.
    #[error(transparent)]
    Subject(#[from] anyhow::Error),
    /// The unchanged program does not start.
    #[error("{}", .program.display())]
    Control {
        /// The program, as it was named.
        program: PathBuf,
        /// The reason.
        source: Box<CompareError>,
    },
    /// A mount namespace cannot be made or entered.
    #[error(transparent)]
    Namespace(#[from] MountNamespaceError),
    /// A strategy changed nothing. The text is the first file that it did not change, with the
    /// reason.
    #[error("{0}")]
    Refused(String),
    /// No thread can be started.
    #[error(transparent)]
    Threads(#[from] ThreadPoolBuildError),
    /// The given loader cannot replace the program's.
    #[error("--loader")]
    Loader(#[source] Box<CompareError>),
    /// The program has no C library that another could replace.
    #[error("the program loads no libc.so.6")]
    NoLibc,
    /// A start could not be traced.
    #[error(transparent)]
    Observe(#[from] ObserveError),
    /// A start did not end in time.
    #[error("did not end within {} s and was killed", .0.as_secs_f64())]
    TooLong(Duration),
    /// A start failed.
    #[error("{how}{}", .said.as_ref().map(|said| format!(": {said}")).unwrap_or_default())]
    Failed {
        /// The failure, for example `exit code 1`.
        how: String,
        /// The last line that the program wrote.
        said: Option<String>,
    },
    /// No column starts.
    #[error("nothing to time")]
    Nothing,
    /// The starts could not be timed.
    #[error(transparent)]
    Bench(#[from] BenchError),
}

impl CompareError {
    /// Converts an error of the system about a file or directory.
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        |source| anyhow::Error::from(source).context(path.display().to_string()).into()
    }
}
