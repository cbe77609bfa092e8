//! The file system as a loader sees it: it returns an object or an errno for a path.
//!
//! The errno decides whether a search continues (see [`crate::loader::glibc`]). An implementation
//! must therefore return the kernel's errno, including its order of checks for components,
//! permissions and link loops. `becalm-host` reads the real file system. With the feature
//! `mem` there is one in memory, for tests.

pub mod mapped;
#[cfg(any(test, feature = "mem"))]
#[path = "tests/mem/mod.rs"]
pub mod mem;
pub mod overlay;

use std::sync::Arc;

use bstr::{BStr, BString};

use crate::elf::{ElfError, ObjectView};
use crate::path;

pub use mapped::{MappedFs, Mapping};
#[cfg(any(test, feature = "mem"))]
pub use mem::MemFs;
pub use overlay::{Added, Additions, Overlay};

/// An errno of Linux. The errnos named here have the same number on all architectures of glibc.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

impl Errno {
    /// Operation not permitted.
    pub const PERM: Self = Self(1);
    /// No such file or directory.
    pub const NOENT: Self = Self(2);
    /// Input/output error.
    pub const IO: Self = Self(5);
    /// No such device or address (a FIFO without a writer, or a device without a driver).
    pub const NXIO: Self = Self(6);
    /// Permission denied.
    pub const ACCES: Self = Self(13);
    /// Not a directory.
    pub const NOTDIR: Self = Self(20);
    /// Is a directory.
    pub const ISDIR: Self = Self(21);
    /// Invalid argument (`readlink` of a file that is no symbolic link).
    pub const INVAL: Self = Self(22);
    /// File name too long.
    pub const NAMETOOLONG: Self = Self(36);
    /// Too many levels of symbolic links.
    pub const LOOP: Self = Self(40);
}

/// The identity of a file, which is the same for all paths to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId {
    /// Device number.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
}

/// The kind of a file, from `stat` with links followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A FIFO, socket or device.
    Other,
}

/// A file that opened, and its parsed content.
#[derive(Clone, Debug)]
pub struct OpenedFile {
    /// Device and inode.
    pub id: FileId,
    /// Permission and set-id bits (`st_mode & 07777`).
    pub mode: u32,
    /// Length in bytes.
    pub len: u64,
    /// The bytes of the first `read`, at most 64, or its errno (`EISDIR` for a directory).
    pub head: Result<Vec<u8>, Errno>,
    /// The object, or the error of the parser.
    pub object: Result<Arc<ObjectView>, ElfError>,
}

/// A file system as a loader sees it. Paths are bytes. A relative path starts at the current
/// directory.
pub trait FileSystem {
    /// Opens a file read-only and parses it. A FIFO or device opens without waiting; its head is
    /// `ENXIO`.
    ///
    /// # Errors
    /// Returns the errno of `open`.
    fn open(&self, path: &BStr) -> Result<Arc<OpenedFile>, Errno>;

    /// Returns the kind of a file, links followed.
    ///
    /// # Errors
    /// Returns the errno of `stat`.
    fn stat(&self, path: &BStr) -> Result<FileKind, Errno>;

    /// Reads a whole small file, such as a loader cache or a preload list.
    ///
    /// # Errors
    /// Returns the errno of `open` or `read`.
    fn read(&self, path: &BStr) -> Result<Arc<[u8]>, Errno>;

    /// Resolves every link, `.` and `..` in a path, as the kernel does for `/proc/self/exe`.
    ///
    /// # Errors
    /// Returns the errno of the walk.
    fn canonicalize(&self, path: &BStr) -> Result<BString, Errno>;

    /// Returns the target of a symbolic link. Links before the last component are followed.
    ///
    /// # Errors
    /// Returns the errno of `readlink`: `EINVAL` for a file that is no symbolic link.
    fn read_link(&self, path: &BStr) -> Result<BString, Errno>;

    /// Returns the absolute path of the current directory.
    fn current_dir(&self) -> BString;

    /// Returns a path with the current directory before it if it is relative.
    fn absolute(&self, path: &BStr) -> BString {
        if path.starts_with(b"/") { path.to_owned() } else { path::join(&self.current_dir(), path) }
    }
}
