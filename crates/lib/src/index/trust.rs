//! Checks that only root and the user who runs becalm can have put a file where it is.
//!
//! Whoever can write an index, or a directory on the way to it, chooses the libraries of the
//! programs that are started with it.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

use becalm_core::index::ReadAt;
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::geteuid;
use thiserror::Error;

use crate::words::words;

/// Links followed on the way to a file (Linux `MAXSYMLINKS`).
const MAX_LINKS: usize = 40;
/// Group and others may write.
const WRITABLE: u32 = 0o022;
/// In a directory with this bit, users can add entries, but remove and rename only their own.
const STICKY: u32 = 0o1000;

/// The reason why a file is not used.
#[derive(Debug, Error)]
pub enum Untrusted {
    /// The file cannot be examined.
    ///
    /// The reason is a part of the text, and not the source of the error: a chain of errors would
    /// have it twice.
    #[error("{}: {}", .path.display(), words(.reason))]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The error of the system.
        reason: io::Error,
    },
    /// Another user owns the file or a directory on the way to it.
    #[error("not used: {} belongs to user {owner}", .path.display())]
    Owner {
        /// The file or directory.
        path: PathBuf,
        /// The user id of its owner.
        owner: u32,
    },
    /// Others may write the file or a directory on the way to it.
    #[error("not used: others than its owner may write {}", .path.display())]
    Writable {
        /// The file or directory.
        path: PathBuf,
    },
    /// Users other than the owner may not read the file or search a directory on the way to it.
    #[error("other users may not read {}", .path.display())]
    Private {
        /// The file or directory.
        path: PathBuf,
    },
    /// The path leads to a directory, FIFO, socket or device.
    #[error("not used: {} is no regular file", .path.display())]
    NoFile {
        /// The file or directory.
        path: PathBuf,
    },
    /// There are more links than the kernel follows.
    #[error("{}: too many links", .path.display())]
    Links {
        /// The file or directory.
        path: PathBuf,
    },
}

impl Untrusted {
    /// True if the file or a directory on the way to it does not exist.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Io { reason, .. } if reason.kind() == io::ErrorKind::NotFound)
    }
}

/// A trusted file, open for reading.
#[derive(Debug)]
pub struct TrustedFile {
    /// The file.
    pub file: File,
    /// The result of `fstat` for the file.
    pub facts: Metadata,
}

impl ReadAt for TrustedFile {
    fn read_at(&self, at: u64, into: &mut [u8]) -> Option<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.file, into, at).ok()
    }
}

/// Opens a file if only root and this user can have put it there: checks its owner and mode, and
/// those of every directory and link that lead to it. Never blocks.
///
/// # Errors
/// Returns [`Untrusted`] if it cannot be opened or is not trusted.
pub fn open(path: &Path) -> Result<TrustedFile, Untrusted> {
    let io = |reason| Untrusted::Io { path: path.to_owned(), reason };
    let open = |flags: OFlags| {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(flags.bits().cast_signed()).open(path)
    };
    // A file that is opened without following a link needs only `fstat`.
    let (file, way) = match open(OFlags::NONBLOCK | OFlags::NOFOLLOW) {
        Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
            (open(OFlags::NONBLOCK).map_err(io)?, Some(path))
        }
        file => (file.map_err(io)?, path.parent()),
    };
    check_way(way.unwrap_or(path), check)?;
    // The state of the open file, which a later change of the path does not affect.
    let facts = file.metadata().map_err(io)?;
    check(path, &facts)?;
    if !facts.is_file() {
        return Err(Untrusted::NoFile { path: path.to_owned() });
    }
    Ok(TrustedFile { file, facts })
}

/// Checks that a file is for all users of the machine: only root can have put it there, and
/// everybody may read it.
///
/// # Errors
/// Returns [`Untrusted`] if it is not.
pub fn check_for_all(path: &Path) -> Result<(), Untrusted> {
    const READ: u32 = 0o004;
    const SEARCH: u32 = 0o001;
    check_way(path, |path, facts| {
        check(path, facts)?;
        let wanted = if facts.is_dir() { SEARCH } else { READ };
        if facts.uid() != 0 {
            return Err(Untrusted::Owner { path: path.to_owned(), owner: facts.uid() });
        }
        // The permissions of a symbolic link are not used (symlink(7)).
        if facts.mode() & wanted == 0 && !facts.is_symlink() {
            return Err(Untrusted::Private { path: path.to_owned() });
        }
        Ok(())
    })
}

/// Follows an absolute path as the kernel does, from the root on, and checks the file, each directory and each link.
fn check_way(
    path: &Path,
    check: impl Fn(&Path, &Metadata) -> Result<(), Untrusted>,
) -> Result<(), Untrusted> {
    let mut way: VecDeque<OsString> = names(path).collect();
    let mut at = PathBuf::from("/");
    let mut links = 0;
    while let Some(name) = way.pop_front() {
        // All links before it are resolved, so `..` is the directory above.
        if name == ".." {
            at.pop();
            continue;
        }
        at.push(name);
        let facts = look(&at)?;
        check(&at, &facts)?;
        if facts.is_symlink() {
            links += 1;
            if links > MAX_LINKS {
                return Err(Untrusted::Links { path: path.to_owned() });
            }
            let target = at.read_link();
            let target = target.map_err(|reason| Untrusted::Io { path: at.clone(), reason })?;
            if target.is_absolute() {
                at = PathBuf::from("/");
            } else {
                at.pop();
            }
            names(&target).rev().for_each(|name| way.push_front(name));
        }
    }
    Ok(())
}

/// Returns the components of a path, without the root and `.`.
fn names(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsStr::new("..").to_owned()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

/// Returns the effective user id, read once.
fn user() -> u32 {
    static USER: OnceLock<u32> = OnceLock::new();
    *USER.get_or_init(|| geteuid().as_raw())
}

fn look(path: &Path) -> Result<Metadata, Untrusted> {
    path.symlink_metadata().map_err(|reason| Untrusted::Io { path: path.to_owned(), reason })
}

/// Checks owner and mode of one directory, file or link. The mode of a link is ignored.
pub fn check(path: &Path, facts: &Metadata) -> Result<(), Untrusted> {
    let path = || path.to_owned();
    if facts.uid() != 0 && facts.uid() != user() {
        return Err(Untrusted::Owner { path: path(), owner: facts.uid() });
    }
    let is_shared = facts.is_dir() && facts.mode() & STICKY != 0;
    if facts.mode() & WRITABLE != 0 && !facts.is_symlink() && !is_shared {
        return Err(Untrusted::Writable { path: path() });
    }
    Ok(())
}
