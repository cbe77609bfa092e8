//! Errors of writing a file.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use thiserror::Error;

use crate::trust::Untrusted;

/// Reason why a file was not written. Unless the variant says otherwise, the file is unchanged.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The file cannot be opened.
    #[error("{}: cannot be opened", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The error of the system call.
        #[source]
        source: io::Error,
    },
    /// Another user could choose the file that is written.
    #[error("{0}")]
    Untrusted(Untrusted),
    /// The path is a directory, FIFO, socket or device.
    #[error("{}: not a regular file", .0.display())]
    NotRegular(PathBuf),
    /// Another becalm has locked the file.
    #[error("{}: another becalm is editing it", .0.display())]
    Locked(PathBuf),
    /// The name refers to another file than the opened one, or the file's content, owner or mode
    /// has changed since it was opened.
    #[error("{}: was changed by another program; nothing was written", .0.display())]
    Changed(PathBuf),
    /// The file has several names, and the options do not choose how to treat them.
    #[error(
        "{}: has {links} hard links; choose with --hardlinks to break or to keep them",
        path.display()
    )]
    HardLinked {
        /// The file.
        path: PathBuf,
        /// Number of its names.
        links: u64,
    },
    /// The file is set-uid or set-gid, and the options do not allow to write such files.
    #[error("{}: is set-uid or set-gid; needs --setuid", .0.display())]
    SetId(PathBuf),
    /// The kernel would remove these rights if the file were written in place.
    #[error(
        "{}: writing it in place would remove its {what}; replace it instead",
        path.display()
    )]
    RightsInPlace {
        /// The file.
        path: PathBuf,
        /// The rights: "set-id bit" or "file capabilities".
        what: &'static str,
    },
    /// An inode flag (`chattr`, fs-verity) forbids to change or replace the file.
    #[error("{}: is {flag} and cannot be changed", path.display())]
    Protected {
        /// The file or directory.
        path: PathBuf,
        /// The flag.
        flag: &'static str,
    },
    /// The file system is mounted read-only.
    #[error("{}: is on a read-only file system", .0.display())]
    ReadOnlyFileSystem(PathBuf),
    /// A running program executes the file, so it cannot be written in place.
    #[error("{}: is being executed and cannot be written in place", .0.display())]
    TextBusy(PathBuf),
    /// The new file could not get the owner of the old one.
    #[error(
        "{}: belongs to user {uid}, group {gid}; the new file cannot get that owner",
        path.display()
    )]
    Owner {
        /// The file.
        path: PathBuf,
        /// Its user id.
        uid: u32,
        /// Its group id.
        gid: u32,
    },
    /// The new file could not get an extended attribute of the old one.
    #[error("{}: its attribute {name} cannot be preserved", path.display())]
    Attribute {
        /// The file.
        path: PathBuf,
        /// The attribute.
        name: String,
        /// The error of the system call.
        #[source]
        source: io::Error,
    },
    /// The patch has ranges that overlap, are out of order or end beyond its length.
    #[error("{}: the patch has ranges that overlap or exceed the file", .0.display())]
    BadPatch(PathBuf),
    /// The path exists, and becalm did not create it.
    #[error("{}: exists and was not made by becalm", .0.display())]
    NotOurs(PathBuf),
    /// A system call failed.
    #[error("{}: cannot {what}", path.display())]
    Failed {
        /// The file.
        path: PathBuf,
        /// The failed operation, as a verb in the passive.
        what: &'static str,
        /// The error of the system call.
        #[source]
        source: io::Error,
    },
    /// The new content is written, but a power failure may still undo it.
    #[error("{}: written, but not synced to the disk", path.display())]
    NotSynced {
        /// The file.
        path: PathBuf,
        /// The error of the system call.
        #[source]
        source: io::Error,
    },
    /// Writing in place failed halfway, and restoring the old bytes failed too. The file's trailer
    /// has the old bytes.
    #[error("{}: written only in part; becalm undo can restore it", path.display())]
    HalfWritten {
        /// The file.
        path: PathBuf,
        /// The error of the system call.
        #[source]
        source: io::Error,
    },
}

impl WriteError {
    /// Returns the error of a file that cannot be opened.
    pub(super) fn open(path: &Path, source: impl Into<io::Error>) -> Self {
        Self::Open { path: path.to_owned(), source: source.into() }
    }

    /// Returns the error of an operation that failed.
    pub(super) fn failed(path: &Path, what: &'static str, source: impl Into<io::Error>) -> Self {
        Self::Failed { path: path.to_owned(), what, source: source.into() }
    }

    /// Returns the error of a sync that failed after the write.
    pub(super) fn not_synced(path: &Path, source: impl Into<io::Error>) -> Self {
        Self::NotSynced { path: path.to_owned(), source: source.into() }
    }

    /// True if the file or a directory on the way to it does not exist.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Open { source, .. } | Self::Failed { source, .. }
            if source.kind() == io::ErrorKind::NotFound)
    }
}

impl From<Untrusted> for WriteError {
    fn from(error: Untrusted) -> Self {
        match error {
            Untrusted::Io { path, reason } => Self::Open { path, source: reason },
            Untrusted::Links(path) => Self::Open { path, source: Errno::LOOP.into() },
            error => Self::Untrusted(error),
        }
    }
}
