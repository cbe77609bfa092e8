//! The calls whose results a program is told, and the events that say that they are old.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::ptr;

use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, openat, statx};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::path::Arg;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize, Serializer};

use crate::path::proc_path;

/// The signal number by which the module recognizes the descriptor of the events. No signal is sent.
const SIGNAL: libc::c_int = 63;
/// Linux include/uapi/asm-generic/fcntl.h.
const F_SETSIG: libc::c_int = 10;
/// Events of changes in a directory, or of a file.
const CHANGES: WatchFlags = WatchFlags::ATTRIB
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::MOVE)
    .union(MOVED);
/// Events of a directory that is moved or removed itself.
const MOVED: WatchFlags = WatchFlags::DELETE_SELF.union(WatchFlags::MOVE_SELF);

/// The result of `statx`, as the kernel writes it.
pub type Facts = rustix::fs::Statx;

/// The inode, size and times by which a file counts as unchanged (`docs/identity.md`). In JSON it is a list of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
pub struct Identity {
    /// The inode.
    pub inode: u64,
    /// The length in bytes.
    pub size: u64,
    /// Seconds and nanoseconds of the last change of the content.
    pub modified: (i64, u32),
    /// Seconds and nanoseconds of the last change of the content or the inode.
    pub changed: (i64, u32),
}

impl Identity {
    /// Returns the identity of a file.
    #[must_use]
    pub fn of(facts: &Facts) -> Self {
        Self {
            inode: facts.stx_ino,
            size: facts.stx_size,
            modified: (facts.stx_mtime.tv_sec, facts.stx_mtime.tv_nsec),
            changed: (facts.stx_ctime.tv_sec, facts.stx_ctime.tv_nsec),
        }
    }

    /// Returns the identity of a regular file; `None` for anything else.
    #[must_use]
    pub fn of_regular(facts: &Facts) -> Option<Self> {
        (kind(facts) == FILE).then(|| Self::of(facts))
    }
}

impl Serialize for Identity {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        (self.inode, self.size, self.modified, self.changed).serialize(to)
    }
}

/// Returns the device number of a file, in one word as the module compares it.
#[must_use]
pub fn device(facts: &Facts) -> u64 {
    u64::from(facts.stx_dev_major) << 32 | u64::from(facts.stx_dev_minor)
}

/// The numbers of a state: block size, links, user, group, mode, inode, size, blocks, then seconds and
/// nanoseconds of atime, btime, ctime and mtime, and device numbers of a special file and of the file system.
pub type Numbers = [u64; 20];

/// Makes the functions that convert a state to its numbers and back.
macro_rules! numbers {
    ($($($field:ident).+ : $type:ty),+ $(,)?) => {
        /// Returns the numbers by which [`facts`] makes the same state.
        #[must_use]
        pub fn numbers(facts: &Facts) -> Numbers {
            [$(facts.$($field).+ as u64),+]
        }

        /// Returns the state of these numbers.
        #[must_use]
        pub fn facts(numbers: &Numbers) -> Facts {
            let mut facts = none();
            facts.stx_mask = WANTED.bits();
            let mut numbers = numbers.iter();
            $(facts.$($field).+ = numbers.next().copied().unwrap_or_default() as $type;)+
            facts
        }
    };
}

numbers! {
    stx_blksize: u32, stx_nlink: u32, stx_uid: u32, stx_gid: u32, stx_mode: u16,
    stx_ino: u64, stx_size: u64, stx_blocks: u64,
    stx_atime.tv_sec: i64, stx_atime.tv_nsec: u32, stx_btime.tv_sec: i64, stx_btime.tv_nsec: u32,
    stx_ctime.tv_sec: i64, stx_ctime.tv_nsec: u32, stx_mtime.tv_sec: i64, stx_mtime.tv_nsec: u32,
    stx_rdev_major: u32, stx_rdev_minor: u32, stx_dev_major: u32, stx_dev_minor: u32,
}

/// A regular file.
pub const FILE: u32 = libc::S_IFREG;
/// A directory.
pub const DIRECTORY: u32 = libc::S_IFDIR;
/// A symbolic link.
pub const LINK: u32 = libc::S_IFLNK;

/// Returns the type of a file.
#[must_use]
pub fn kind(facts: &Facts) -> u32 {
    u32::from(facts.stx_mode) & libc::S_IFMT
}

/// Returns the milliseconds of `CLOCK_MONOTONIC`, by which the module knows how old a result is.
#[must_use]
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.cast_unsigned() * 1000 + time.tv_nsec.cast_unsigned() / 1_000_000
}

/// Calls `stat` or, without `follow`, `lstat`, for a path relative to a directory.
///
/// # Errors
/// Returns the error of the call.
pub fn at(directory: BorrowedFd<'_>, path: impl Arg, follow: bool) -> io::Result<Facts> {
    let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
    Ok(statx(directory, path, flags, WANTED)?)
}

/// Calls `fstat`.
///
/// # Errors
/// Returns the error of the call.
pub fn open_file(file: BorrowedFd<'_>) -> io::Result<Facts> {
    Ok(statx(file, c"", AtFlags::EMPTY_PATH, WANTED)?)
}

/// Opens a regular file for reading, as a program does, so that a network's file system asks its server
/// for the file's state. Waits for no FIFO.
///
/// # Errors
/// Returns the error of the call.
pub fn open(directory: BorrowedFd<'_>, path: impl Arg) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    Ok(openat(directory, path, flags, Mode::empty())?)
}

/// Opens a directory, by a path relative to another one, to look up names in it.
///
/// # Errors
/// Returns the error of the call.
pub fn directory(above: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(above, path, flags, Mode::empty())?)
}

/// Returns the real path of an open directory; no path is looked up.
#[must_use]
pub fn real(opened: BorrowedFd<'_>) -> Option<PathBuf> {
    std::fs::read_link(proc_path(&opened)).ok()
}

/// True if the kernel maps this file as code: not on a file system that is mounted with `noexec`, or if a
/// security module forbids it.
#[allow(unsafe_code, reason = "a mapping has no safe form")]
#[must_use]
pub fn is_mapped_as_code(file: BorrowedFd<'_>) -> bool {
    let rights = ProtFlags::READ | ProtFlags::EXEC;
    // SAFETY: a new mapping, which nothing uses.
    unsafe {
        let mapped = mmap(ptr::null_mut(), 1, rights, MapFlags::PRIVATE, file, 0);
        mapped.is_ok_and(|mapped| munmap(mapped, 1).is_ok())
    }
}

/// The parts of a state that are wanted.
const WANTED: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME);

/// Returns a state of zeros.
#[allow(unsafe_code, reason = "the type has no default")]
pub(crate) fn none() -> Facts {
    // SAFETY: zeros are a valid value of these numbers.
    unsafe { mem::zeroed() }
}

/// Events of changes in directories, on a descriptor that programs get as well.
#[derive(Debug)]
pub struct Changes(
    /// The descriptor.
    pub OwnedFd,
);

impl Changes {
    /// Makes a descriptor without directories.
    ///
    /// # Errors
    /// Returns an error if the user has too many of them.
    #[allow(unsafe_code, reason = "the mark of a descriptor has no safe form")]
    pub fn new() -> io::Result<Self> {
        let events = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        // SAFETY: the call takes numbers.
        if unsafe { libc::fcntl(events.as_raw_fd(), F_SETSIG, SIGNAL) } == 0 {
            Ok(Self(events))
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Watches what is in an open directory, or an open file.
    ///
    /// # Errors
    /// Returns an error if it cannot be read, or if the user watches too many.
    pub fn watch(&self, opened: BorrowedFd<'_>) -> io::Result<()> {
        add_watch(&self.0, proc_path(&opened), CHANGES | WatchFlags::MASK_ADD)?;
        Ok(())
    }

    /// Watches a directory itself, not what is in it.
    pub fn watch_itself(&self, directory: &Path) {
        let _ = add_watch(&self.0, directory, MOVED | WatchFlags::MASK_ADD);
    }

    /// True if something has changed.
    #[must_use]
    pub fn happened(&self) -> bool {
        rustix::io::ioctl_fionread(&self.0).is_ok_and(|bytes| bytes > 0)
    }
}
