//! Wraps each system call by which [`super`] reads or changes the file system.
//!
//! A test can implement `tests::faults::Faults` to make the n-th call fail, write only part of the bytes, or
//! behave as if the process had been killed there.

use std::ffi::{CStr, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
#[cfg(test)]
use std::sync::Arc;

use rustix::buffer::spare_capacity;
use rustix::fs::{self, AtFlags, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::{Errno, Result};
use rustix::process::{Gid, Uid};

use super::error::WriteError;
#[cfg(test)]
use super::tests::faults::{Faults, Verdict};
use crate::facts::Facts;
use crate::path::entries_of;
use crate::reader::fill;
use crate::trust::{self, Rule};

/// A system call that is about to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code, reason = "tests look at the calls"))]
pub(super) enum Call<'a> {
    /// Opens an existing file.
    Open,
    /// Reads a file's state, type or attributes.
    Stat,
    /// Reads bytes.
    Read,
    /// Lists a directory.
    List,
    /// Takes an advisory lock.
    Lock,
    /// Creates an empty file.
    Create,
    /// Shares the blocks of another file.
    Clone,
    /// Copies bytes from another file in the kernel.
    Copy,
    /// Writes bytes.
    Write {
        /// The offset in the file.
        offset: u64,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// Sets the length, in bytes.
    SetLength(u64),
    /// Sets mode, owner or times.
    Metadata,
    /// Sets or removes an extended attribute.
    Attribute,
    /// Syncs one file or directory.
    Sync,
    /// Syncs a whole file system.
    SyncAll,
    /// Renames the file to this path.
    Rename(&'a Path),
    /// Removes a name.
    Remove,
    /// Creates a directory.
    MakeDir,
    /// Creates a symbolic link.
    Link,
}

/// The system calls.
#[derive(Clone, Default)]
pub(super) struct Sys {
    #[cfg(test)]
    pub(super) faults: Option<Arc<dyn Faults>>,
    pub(super) rule: Rule,
}

/// An open file or directory.
#[derive(Clone, Copy)]
pub(super) struct On<'a> {
    pub(super) path: &'a Path,
    pub(super) fd: &'a OwnedFd,
}

/// A name in an open directory.
pub(super) struct At<'a> {
    pub(super) path: PathBuf,
    dir: BorrowedFd<'a>,
    name: &'a OsStr,
}

impl<'a> On<'a> {
    pub(super) fn at(self, name: &'a OsStr) -> At<'a> {
        At { path: self.path.join(name), dir: self.fd.as_fd(), name }
    }

    /// Does the same for a name whose path is known.
    pub(super) fn named(self, name: &'a OsStr, path: &Path) -> At<'a> {
        At { path: path.to_owned(), ..self.at(name) }
    }
}

impl<'a> At<'a> {
    /// Returns the name that a path is in the current directory.
    pub(super) fn here(path: &'a Path) -> Self {
        At { path: path.to_owned(), dir: fs::CWD, name: path.as_os_str() }
    }
}

/// The kernel's limit in bytes for the names and the value of extended attributes (xattr(7)).
const LONGEST_ATTRIBUTE: usize = 64 * 1024;

/// Flags for directory descriptors.
pub(super) const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl Sys {
    /// Returns how many of `len` bytes a test lets be written.
    #[cfg(not(test))]
    fn pass(&self, _: &Path, _: Call<'_>, len: usize) -> Result<usize> {
        Ok(len)
    }

    #[cfg(test)]
    fn pass(&self, path: &Path, call: Call<'_>, len: usize) -> Result<usize> {
        match self.faults.as_ref().map(|faults| faults.before(path, call)) {
            None | Some(Verdict::Pass) => Ok(len),
            Some(Verdict::Short(count)) => Ok(count.min(len)),
            Some(Verdict::Fail(errno)) => Err(Errno::from_raw_os_error(errno)),
        }
    }

    /// Makes a call again while a signal interrupts it, unless a fault keeps it from being made.
    fn call<T>(&self, path: &Path, call: Call<'_>, make: impl FnMut() -> Result<T>) -> Result<T> {
        self.pass(path, call, 0)?;
        rustix::io::retry_on_intr(make)
    }

    /// Opens a file at a path without links. Does not wait for the other end of a FIFO.
    pub(super) fn open(&self, path: &Path, flags: OFlags) -> Result<OwnedFd> {
        let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY;
        self.call(path, Call::Open, || trust::open_without_links(path, flags, Mode::empty()))
    }

    /// Does the same for any path, whose links are followed if the rule allows it. Returns the path
    /// without links, too.
    pub(super) fn find(
        &self,
        path: &Path,
        flags: OFlags,
    ) -> std::result::Result<(OwnedFd, PathBuf), WriteError> {
        self.pass(path, Call::Open, 0)
            .map_err(|errno| WriteError::failed(path, "be opened", errno))?;
        let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY;
        Ok(self.rule.open(path, flags, Mode::empty())?)
    }

    /// Opens a name in a directory, not following a symbolic link.
    fn openat(&self, at: &At<'_>, call: Call<'_>, flags: OFlags, mode: u32) -> Result<OwnedFd> {
        let (flags, mode) = (flags | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::from_raw_mode(mode));
        self.call(&at.path, call, || fs::openat(at.dir, at.name, flags, mode))
    }

    /// Opens a file in a directory.
    pub(super) fn open_at(&self, at: &At<'_>, flags: OFlags) -> Result<OwnedFd> {
        self.openat(at, Call::Open, flags | OFlags::NONBLOCK | OFlags::NOCTTY, 0)
    }

    /// Opens or creates a file in a directory.
    pub(super) fn open_or_create_at(&self, at: &At<'_>) -> Result<OwnedFd> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NONBLOCK;
        self.openat(at, Call::Create, flags, 0o644)
    }

    /// Opens a directory in another.
    pub(super) fn open_dir_at(&self, at: &At<'_>) -> Result<OwnedFd> {
        self.openat(at, Call::Open, DIRECTORY, 0)
    }

    /// Creates a file that only its owner can read and write.
    pub(super) fn create(&self, at: &At<'_>) -> Result<OwnedFd> {
        // `O_EXCL` also refuses a symbolic link that another user has put there (open(2)).
        self.openat(at, Call::Create, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, 0o600)
    }

    /// Returns the state of an open file.
    pub(super) fn stat(&self, on: On<'_>) -> Result<Facts> {
        self.pass(on.path, Call::Stat, 0)?;
        Facts::of(on.fd)
    }

    /// Returns the state of a name in a directory, not following a symbolic link.
    pub(super) fn stat_at(&self, at: &At<'_>) -> Result<Facts> {
        self.pass(&at.path, Call::Stat, 0)?;
        Facts::at(at.dir, at.name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Takes a lock, or fails at once with `EWOULDBLOCK` if another process has it.
    pub(super) fn lock(&self, on: On<'_>, operation: FlockOperation) -> Result<()> {
        self.call(on.path, Call::Lock, || fs::flock(on.fd, operation))
    }

    /// Reads up to `bytes.len()` bytes from `offset` on.
    pub(super) fn read(&self, on: On<'_>, bytes: &mut [u8], offset: u64) -> Result<usize> {
        self.call(on.path, Call::Read, || rustix::io::pread(on.fd, &mut *bytes, offset))
    }

    /// Fills `bytes` from `offset` on. Returns `UnexpectedEof` if the file ends before.
    pub(super) fn read_exact(&self, on: On<'_>, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        fill(bytes, offset, |bytes, at| self.read(on, bytes, at)).1
    }

    /// Writes all of `bytes` at `offset`.
    pub(super) fn write(&self, on: On<'_>, mut bytes: &[u8], mut offset: u64) -> Result<()> {
        while !bytes.is_empty() {
            let allowed = self.pass(on.path, Call::Write { offset, bytes }, bytes.len())?;
            let write = || rustix::io::pwrite(on.fd, &bytes[..allowed], offset);
            let count = rustix::io::retry_on_intr(write)?;
            // Without this check a device that accepts no bytes would make the loop endless.
            if count == 0 && allowed > 0 {
                return Err(Errno::IO);
            }
            bytes = &bytes[count..];
            offset += count as u64;
        }
        Ok(())
    }

    /// Makes `to` share the blocks of `from` (btrfs, XFS, bcachefs and others).
    pub(super) fn share(&self, from: On<'_>, to: On<'_>) -> Result<()> {
        self.call(to.path, Call::Clone, || fs::ioctl_ficlone(to.fd, from.fd))
    }

    /// Copies up to `len` bytes at the same offset, in the kernel.
    pub(super) fn copy(&self, from: On<'_>, to: On<'_>, offset: u64, len: usize) -> Result<usize> {
        self.call(to.path, Call::Copy, || {
            let (mut there, mut here) = (offset, offset);
            fs::copy_file_range(from.fd, Some(&mut there), to.fd, Some(&mut here), len)
        })
    }

    /// Returns the offset of the next data or hole at or after an offset. Fails with `ENXIO` at the
    /// end.
    pub(super) fn seek(&self, on: On<'_>, to: fs::SeekFrom) -> Result<u64> {
        self.call(on.path, Call::Stat, || fs::seek(on.fd, to))
    }

    pub(super) fn set_length(&self, on: On<'_>, len: u64) -> Result<()> {
        self.call(on.path, Call::SetLength(len), || fs::ftruncate(on.fd, len))
    }

    /// Sets the permission and set-id bits.
    pub(super) fn set_mode(&self, on: On<'_>, mode: u32) -> Result<()> {
        self.call(on.path, Call::Metadata, || fs::fchmod(on.fd, Mode::from_raw_mode(mode)))
    }

    pub(super) fn set_owner(&self, on: On<'_>, (uid, gid): (u32, u32)) -> Result<()> {
        let (user, group) = (Uid::from_raw(uid), Gid::from_raw(gid));
        self.call(on.path, Call::Metadata, || fs::fchown(on.fd, Some(user), Some(group)))
    }

    pub(super) fn set_times(&self, on: On<'_>, times: &fs::Timestamps) -> Result<()> {
        self.call(on.path, Call::Metadata, || fs::futimens(on.fd, times))
    }

    /// Returns the names of a file's extended attributes, each with its NUL.
    pub(super) fn attributes(&self, on: On<'_>) -> Result<Vec<u8>> {
        self.pass(on.path, Call::Stat, 0)?;
        let mut names = Vec::with_capacity(LONGEST_ATTRIBUTE);
        fs::flistxattr(on.fd, spare_capacity(&mut names)).map(|_| names)
    }

    /// Returns the value of an extended attribute.
    pub(super) fn attribute(&self, on: On<'_>, name: &CStr) -> Result<Vec<u8>> {
        self.pass(on.path, Call::Stat, 0)?;
        let mut value = Vec::with_capacity(LONGEST_ATTRIBUTE);
        fs::fgetxattr(on.fd, name, spare_capacity(&mut value)).map(|_| value)
    }

    pub(super) fn set_attribute(&self, on: On<'_>, name: &CStr, value: &[u8]) -> Result<()> {
        let flags = fs::XattrFlags::empty();
        self.call(on.path, Call::Attribute, || fs::fsetxattr(on.fd, name, value, flags))
    }

    pub(super) fn remove_attribute(&self, on: On<'_>, name: &CStr) -> Result<()> {
        self.call(on.path, Call::Attribute, || fs::fremovexattr(on.fd, name))
    }

    /// Syncs one file or directory and the metadata needed to find it.
    pub(super) fn sync(&self, on: On<'_>) -> Result<()> {
        // `fdatasync` would not sync the owner and the mode, which are part of the edit.
        self.call(on.path, Call::Sync, || fs::fsync(on.fd))
    }

    /// Syncs the whole file system of a file.
    pub(super) fn sync_all(&self, on: On<'_>) -> Result<()> {
        self.call(on.path, Call::SyncAll, || fs::syncfs(on.fd))
    }

    /// Renames a file in its directory.
    pub(super) fn rename(&self, from: &At<'_>, to: &At<'_>, flags: RenameFlags) -> Result<()> {
        self.call(&from.path, Call::Rename(&to.path), || {
            // Plain `renameat` works on every kernel and file system; the flags of `renameat2` do not.
            match flags.is_empty() {
                true => fs::renameat(from.dir, from.name, to.dir, to.name),
                false => fs::renameat_with(from.dir, from.name, to.dir, to.name, flags),
            }
        })
    }

    pub(super) fn remove(&self, at: &At<'_>) -> Result<()> {
        self.call(&at.path, Call::Remove, || fs::unlinkat(at.dir, at.name, AtFlags::empty()))
    }

    pub(super) fn remove_dir(&self, at: &At<'_>) -> Result<()> {
        self.call(&at.path, Call::Remove, || fs::unlinkat(at.dir, at.name, AtFlags::REMOVEDIR))
    }

    /// Creates a directory that only its owner can use, with the sticky bit.
    pub(super) fn make_dir(&self, at: &At<'_>) -> Result<()> {
        let mode = Mode::RWXU | Mode::SVTX;
        self.call(&at.path, Call::MakeDir, || fs::mkdirat(at.dir, at.name, mode))
    }

    pub(super) fn link(&self, at: &At<'_>, target: &Path) -> Result<()> {
        self.call(&at.path, Call::Link, || fs::symlinkat(target, at.dir, at.name))
    }

    /// Returns the target of a symbolic link.
    pub(super) fn read_link(&self, at: &At<'_>) -> Result<PathBuf> {
        let read = || fs::readlinkat(at.dir, at.name, Vec::new());
        let target = self.call(&at.path, Call::Read, read)?;
        Ok(OsString::from_vec(target.into_bytes()).into())
    }

    /// Returns the names in a directory without `.` and `..`.
    pub(super) fn list(&self, on: On<'_>) -> Result<Vec<OsString>> {
        self.pass(on.path, Call::List, 0)?;
        let entries = entries_of(on.fd)?.into_iter();
        Ok(entries.map(|(name, _)| OsString::from_vec(name.into())).collect())
    }
}
