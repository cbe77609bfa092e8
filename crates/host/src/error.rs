//! Errors of the machine, each with its path.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// An error with the path that it is about.
#[derive(Debug, Error)]
pub enum HostError {
    /// A file or folder cannot be read.
    #[error("{}: cannot be read", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The error of the system call.
        #[source]
        source: io::Error,
    },
    /// The interpreter that a program names cannot be read.
    #[error("interpreter {}: cannot be read", path.display())]
    Interpreter {
        /// The interpreter's path in the program.
        path: PathBuf,
        /// The error of the system call.
        #[source]
        source: io::Error,
    },
    /// The file cannot be used.
    #[error("{}: {reason}", path.display())]
    Unusable {
        /// The file, or the interpreter's path in the program.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
}

impl HostError {
    /// Returns the error of a file that cannot be used.
    pub(crate) fn unusable(path: impl Into<PathBuf>, reason: impl Into<String>) -> Self {
        Self::Unusable { path: path.into(), reason: reason.into() }
    }

    /// Returns the path that the error is about.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Read { path, .. } | Self::Interpreter { path, .. } => path,
            Self::Unusable { path, .. } => path,
        }
    }
}

/// Describes an error of the system, without its number.
#[must_use]
pub fn words(error: &io::Error) -> String {
    let text = error.to_string();
    let Some((before, number)) = text.split_once(" (os error ") else { return text };
    // Errors of temporary files end with a path.
    let rest = number.split_once(')').map_or("", |(_, rest)| rest);
    format!("{before}{rest}")
}
