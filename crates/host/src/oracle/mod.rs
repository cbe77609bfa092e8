//! Runs real loaders and records their lookups, to compare predictions with them.
//!
//! A glibc loader lists and exits before any code of the program runs; another interpreter may do
//! anything. The caller decides which loaders to trust. `becalm check` runs nothing. The tests start
//! loaders in more ways (`becalm-testing`).

mod child;
mod ld_debug;

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use thiserror::Error;

pub use child::{Ended, run};
pub use ld_debug::{FATAL, LdDebug, ld_debug};

/// The usual time limit of a run.
pub const LIMIT: Duration = Duration::from_secs(10);

/// Has the loader of an object list the loaded objects, in an empty environment: the one that the
/// kernel starts for a program, or `loader`.
///
/// # Errors
/// Returns an error if the run fails to start or exceeds its time limit.
pub fn list(object: &Path, loader: Option<&Path>) -> Result<LdDebug, OracleError> {
    let path = with_slash(object);
    let mut command = Command::new(loader.unwrap_or(&path));
    command.args(loader.map(|_| &path)).env_clear().env("LD_TRACE_LOADED_OBJECTS", "1");
    ld_debug(command, object, LIMIT)
}

/// Returns a path with a slash. A name without one would be searched for along `PATH`, and by a
/// loader as a library.
#[must_use]
pub fn with_slash(path: &Path) -> PathBuf {
    let has_slash = path.as_os_str().as_bytes().contains(&b'/');
    if has_slash { path.to_owned() } else { Path::new(".").join(path) }
}

/// Errors of a run. If the loader rejects the object, that is no error: the record has it.
#[derive(Debug, Error)]
pub enum OracleError {
    /// The run exceeded its time limit.
    #[error("{}: did not end within {limit:?}", object.display())]
    TooLong {
        /// The object.
        object: PathBuf,
        /// The time limit.
        limit: Duration,
    },
    /// The command could not be started, or a scratch file not be created or read.
    #[error("{}: {what}", path.display())]
    Failed {
        /// The command or the object.
        path: PathBuf,
        /// The failure.
        what: &'static str,
        /// The error of the system call.
        #[source]
        source: std::io::Error,
    },
}

/// Returns a function for `map_err` that makes a scratch error.
pub fn scratch(path: &Path) -> impl Fn(std::io::Error) -> OracleError + '_ {
    let what = "cannot create or read the record of the run";
    move |source| OracleError::Failed { path: path.to_owned(), what, source }
}
