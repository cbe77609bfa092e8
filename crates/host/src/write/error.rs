//! Why a file was not written.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why a file was not written. Unless the variant says otherwise, it is as it was.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The file cannot be opened.
    #[error("{}: cannot be opened", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A directory, FIFO, socket or device.
    #[error("{}: not a regular file", path.display())]
    NotRegular {
        /// The file.
        path: PathBuf,
    },
    /// Another becalm has it locked.
    #[error("{}: another becalm is at work on it", path.display())]
    Locked {
        /// The file, directory or temporary file.
        path: PathBuf,
    },
    /// What was opened is not what has that name any more, or its content, owner or mode
    /// changed since.
    #[error("{}: changed by something else meanwhile; nothing was written", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The file has further names, and what is to become of them was not said.
    #[error(
        "{}: has {links} hard links; say whether to break or to keep them (--hardlinks)",
        path.display()
    )]
    HardLinked {
        /// The file.
        path: PathBuf,
        /// Number of its names.
        links: u64,
    },
    /// A set-uid or set-gid file, without leave to write it.
    #[error("{}: runs with other rights (set-uid or set-gid); needs --setuid", path.display())]
    SetId {
        /// The file.
        path: PathBuf,
    },
    /// Writing in place would make the kernel take these rights away.
    #[error(
        "{}: its {what} would be lost in place; write it anew instead",
        path.display()
    )]
    RightsInPlace {
        /// The file.
        path: PathBuf,
        /// What: the set-id bit or the file capabilities.
        what: &'static str,
    },
    /// The inode is marked (`chattr`, fs-verity) so that it cannot be changed or replaced.
    #[error("{}: is marked {mark} and cannot be changed", path.display())]
    Marked {
        /// The file or directory.
        path: PathBuf,
        /// The mark.
        mark: &'static str,
    },
    /// The file system is mounted read-only.
    #[error("{}: lies on a read-only file system", path.display())]
    ReadOnlyFileSystem {
        /// The file.
        path: PathBuf,
    },
    /// A running program cannot be written in place.
    #[error("{}: is being executed and cannot be written in place", path.display())]
    TextBusy {
        /// The file.
        path: PathBuf,
    },
    /// The new file could not be given the owner of the old one.
    #[error(
        "{}: belongs to user {uid}, group {gid}, which a new file cannot be given",
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
    /// The new file could not be given an extended attribute of the old one.
    #[error("{}: its attribute {name} cannot be kept", path.display())]
    Attribute {
        /// The file.
        path: PathBuf,
        /// The attribute.
        name: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The patch has ranges that overlap, are out of order or reach beyond its length.
    #[error("{}: ranges to write that do not fit together", path.display())]
    BadPatch {
        /// The file.
        path: PathBuf,
    },
    /// There is something of that name which is not becalm's to replace or remove.
    #[error("{}: exists and was not made by becalm", path.display())]
    NotOurs {
        /// The file or directory.
        path: PathBuf,
    },
    /// A call of the system failed.
    #[error("{}: cannot {what}", path.display())]
    Failed {
        /// The file.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The new content is in place, but whether it would survive a power failure is not
    /// known.
    #[error("{}: written, but not known to have reached the disk", path.display())]
    NotSynced {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Writing in place failed halfway, and so did taking it back. The trailer stands, with
    /// the old bytes.
    #[error("{}: written in part only; becalm undo can take it back", path.display())]
    HalfWritten {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}
