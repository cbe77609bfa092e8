//! Errors of writing a file.

use std::io;
use std::path::PathBuf;

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
    #[error("{}: not a regular file", path.display())]
    NotRegular {
        /// The file.
        path: PathBuf,
    },
    /// Another becalm has locked the file.
    #[error("{}: another becalm is editing it", path.display())]
    Locked {
        /// The file, directory or temporary file.
        path: PathBuf,
    },
    /// The name refers to another file than the opened one, or the file's content, owner or mode
    /// has changed since it was opened.
    #[error("{}: was changed by another program; nothing was written", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
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
    #[error("{}: is set-uid or set-gid; needs --setuid", path.display())]
    SetId {
        /// The file.
        path: PathBuf,
    },
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
    #[error("{}: is on a read-only file system", path.display())]
    ReadOnlyFileSystem {
        /// The file.
        path: PathBuf,
    },
    /// A running program executes the file, so it cannot be written in place.
    #[error("{}: is being executed and cannot be written in place", path.display())]
    TextBusy {
        /// The file.
        path: PathBuf,
    },
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
    #[error("{}: the patch has ranges that overlap or exceed the file", path.display())]
    BadPatch {
        /// The file.
        path: PathBuf,
    },
    /// The path exists, and becalm did not create it.
    #[error("{}: exists and was not made by becalm", path.display())]
    NotOurs {
        /// The file or directory.
        path: PathBuf,
    },
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
            Untrusted::Links { path } => Self::Open { path, source: Errno::LOOP.into() },
            error => Self::Untrusted(error),
        }
    }
}
