//! Errors of writing a file.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::trust::Untrusted;

/// The reason for a file system that is mounted read-only.
pub(super) const READ_ONLY: &str = "is on a read-only file system";

/// The new content is written, but a power failure may still undo it.
const NOT_SYNCED: &str = "written, but not synced to the disk";

/// Writing in place failed halfway, and restoring the old bytes failed too. The file's trailer has
/// the old bytes.
pub(super) const HALF_WRITTEN: &str = "written only in part; becalm undo can restore it";

/// Reason why a file was not written. Unless the variant says otherwise, the file is unchanged.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The file, or the options, do not allow to write it.
    #[error("{}: {why}", path.display())]
    Refused {
        /// The file or directory.
        path: PathBuf,
        /// The reason.
        why: Cow<'static, str>,
    },
    /// Another user could choose the file that is written.
    #[error("{0}")]
    Untrusted(Untrusted),
    /// Another becalm has locked the file.
    #[error("{}: another becalm is editing it", .0.display())]
    Locked(PathBuf),
    /// The name refers to another file than the opened one, or the file's content, owner or mode
    /// has changed since it was opened.
    #[error("{}: was changed by another program; nothing was written", .0.display())]
    Changed(PathBuf),
    /// The path exists, and becalm did not create it.
    #[error("{}: exists and was not made by becalm", .0.display())]
    NotOurs(PathBuf),
    /// A system call failed. The text says if the file may be changed nevertheless.
    #[error("{}: {what}", path.display())]
    Failed {
        /// The file.
        path: PathBuf,
        /// The failure.
        what: Cow<'static, str>,
        /// The error of the system call.
        #[source]
        source: io::Error,
    },
}

impl WriteError {
    /// Returns the error of a file that is not written.
    pub(super) fn refused(path: &Path, why: impl Into<Cow<'static, str>>) -> Self {
        Self::Refused { path: path.to_owned(), why: why.into() }
    }

    /// Returns the error of an operation that failed: a verb in the passive.
    pub(super) fn failed(path: &Path, what: &'static str, source: impl Into<io::Error>) -> Self {
        Self::of(path, format!("cannot {what}"), source)
    }

    /// Returns the error of a sync that failed after the write.
    pub(super) fn not_synced(path: &Path, source: impl Into<io::Error>) -> Self {
        Self::of(path, NOT_SYNCED, source)
    }

    pub(super) fn of(
        path: &Path,
        what: impl Into<Cow<'static, str>>,
        source: impl Into<io::Error>,
    ) -> Self {
        Self::Failed { path: path.to_owned(), what: what.into(), source: source.into() }
    }

    /// True if the file was changed all the same, perhaps in part.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        matches!(self, Self::Failed { what, .. } if what == NOT_SYNCED || what == HALF_WRITTEN)
    }

    /// True if the file or a directory on the way to it does not exist.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Failed { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

impl From<Untrusted> for WriteError {
    fn from(error: Untrusted) -> Self {
        match error {
            Untrusted::Io { path, reason } => Self::failed(&path, "be opened", reason),
            error => Self::Untrusted(error),
        }
    }
}
