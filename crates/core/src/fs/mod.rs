//! The file system as a loader sees it: paths in, objects or an errno out.
//!
//! Which errno comes back decides whether a search goes on (see
//! [`crate::loader::glibc`]), so an implementation must be faithful to it: the
//! order in which the kernel checks components, permissions and link loops is part
//! of the contract. `becalm-host` reads the real one; [`MemFs`] is for tests.

pub mod mapped;
pub mod mem;
pub mod overlay;

use std::sync::Arc;

use bstr::{BStr, BString};

use crate::elf::{ElfError, ObjectView};

pub use mapped::{MappedFs, Mapping};
pub use mem::MemFs;
pub use overlay::{Changes, Overlay};

/// An errno of Linux, by its number on x86 (the same for those named here on every
/// architecture glibc runs on).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

impl Errno {
    /// Operation not permitted.
    pub const PERM: Self = Self(1);
    /// No such file or directory.
    pub const NOENT: Self = Self(2);
    /// Input/output error.
    pub const IO: Self = Self(5);
    /// No such device or address (a FIFO or device nobody serves).
    pub const NXIO: Self = Self(6);
    /// Permission denied.
    pub const ACCES: Self = Self(13);
    /// Not a directory.
    pub const NOTDIR: Self = Self(20);
    /// Is a directory.
    pub const ISDIR: Self = Self(21);
    /// File name too long.
    pub const NAMETOOLONG: Self = Self(36);
    /// Too many levels of symbolic links.
    pub const LOOP: Self = Self(40);
}

/// Identity of a file: what two paths to one file share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId {
    /// Device number.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
}

/// What a path names, as `stat` (links followed) tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A FIFO, socket or device.
    Other,
}

/// A file that opened, with what its first bytes say.
#[derive(Clone, Debug)]
pub struct OpenedFile {
    /// Device and inode.
    pub id: FileId,
    /// Permission and set-id bits (`st_mode & 07777`).
    pub mode: u32,
    /// Length in bytes.
    pub len: u64,
    /// The first bytes, as many as `read` gave, 64 at the most; an error where
    /// `read` failed (`EISDIR` for a directory).
    pub head: Result<Vec<u8>, Errno>,
    /// The object, or why the bytes are none.
    pub object: Result<Arc<ObjectView>, ElfError>,
}

/// A file system as a loader sees it. Paths are bytes; a relative one starts at
/// the current directory.
pub trait FileSystem {
    /// `open(path, O_RDONLY)`, then a look at what came back. A FIFO or device is not
    /// waited for: it opens, and its head is `ENXIO`.
    ///
    /// # Errors
    /// The errno of `open`.
    fn open(&self, path: &BStr) -> Result<Arc<OpenedFile>, Errno>;

    /// `stat(path)`, links followed.
    ///
    /// # Errors
    /// The errno of `stat`.
    fn stat(&self, path: &BStr) -> Result<FileKind, Errno>;

    /// The whole of a small file (a loader cache, a preload list).
    ///
    /// # Errors
    /// The errno of `open` or `read`.
    fn read(&self, path: &BStr) -> Result<Arc<[u8]>, Errno>;

    /// The path with every link, `.` and `..` resolved, as the kernel's
    /// `/proc/self/exe` would give it.
    ///
    /// # Errors
    /// The errno of the walk.
    fn canonicalize(&self, path: &BStr) -> Result<BString, Errno>;

    /// The current directory, absolute.
    fn current_dir(&self) -> BString;
}
