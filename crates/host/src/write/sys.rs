//! Wraps each system call by which [`super`] reads or changes the file system.
//!
//! A test can implement [`Faults`] to make the n-th call fail, write only part of the bytes, or
//! behave as if the process had been killed there.

use std::ffi::{CStr, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::buffer::spare_capacity;
use rustix::fs::{self, AtFlags, FlockOperation, Mode, OFlags, RenameFlags, StatxFlags};
use rustix::io::Errno;

use super::error::WriteError;
use super::facts::Facts;
use crate::trust::{self, Rule};

/// A system call that is about to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Call<'a> {
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

impl Call<'_> {
    /// Returns true for a call that changes the file system.
    #[must_use]
    pub fn changes(&self) -> bool {
        !matches!(self, Self::Open | Self::Stat | Self::Read | Self::List | Self::Lock)
    }
}

/// Effect of a fault on a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The call is made.
    Pass,
    /// The call is not made and fails with this error number.
    Fail(i32),
    /// A write writes at most this number of bytes. Any other call is made.
    Short(usize),
}

/// Injects faults into the calls of a [`super::Writer`], to test crashes, full disks and broken
/// disks.
pub trait Faults: Send + Sync {
    /// Called before each call on the file `path`.
    fn before(&self, path: &Path, call: Call<'_>) -> Verdict;
}

/// The system calls, with or without faults.
#[derive(Clone, Default)]
pub(super) struct Sys {
    faults: Option<Arc<dyn Faults>>,
    rule: Rule,
}

/// Flags for directory descriptors.
pub(super) const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl Sys {
    pub(super) fn with(faults: Arc<dyn Faults>) -> Self {
        Self { faults: Some(faults), rule: Rule::default() }
    }

    pub(super) fn under(rule: Rule) -> Self {
        Self { faults: None, rule }
    }

    /// Applies `faults` and returns how many of `len` bytes may be written.
    fn pass(&self, path: &Path, call: Call<'_>, len: usize) -> Result<usize, Errno> {
        match self.faults.as_ref().map(|faults| faults.before(path, call)) {
            None | Some(Verdict::Pass) => Ok(len),
            Some(Verdict::Short(count)) => Ok(count.min(len)),
            Some(Verdict::Fail(errno)) => Err(Errno::from_raw_os_error(errno)),
        }
    }

    /// Opens a file at a path without links. Does not wait for the other end of a FIFO.
    pub(super) fn open(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        self.pass(path, Call::Open, 0)?;
        let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY;
        retry(|| trust::open_without_links(path, flags, Mode::empty()))
    }

    /// Does the same for any path, whose links are followed if the rule allows it. Returns the path
    /// without links, too.
    pub(super) fn find(
        &self,
        path: &Path,
        flags: OFlags,
    ) -> Result<(OwnedFd, PathBuf), WriteError> {
        let failed = |errno| WriteError::Open { path: path.to_owned(), source: error(errno) };
        self.pass(path, Call::Open, 0).map_err(failed)?;
        let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY;
        Ok(self.rule.open(path, flags, Mode::empty())?)
    }

    /// Opens a file in a directory.
    pub(super) fn open_at(
        &self,
        path: &Path,
        dir: impl AsFd,
        name: &OsStr,
        flags: OFlags,
    ) -> Result<OwnedFd, Errno> {
        self.pass(path, Call::Open, 0)?;
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        retry(|| fs::openat(&dir, name, flags, Mode::empty()))
    }

    /// Opens or creates a file in a directory. Does not follow a symbolic link.
    pub(super) fn open_or_create_at(
        &self,
        path: &Path,
        dir: impl AsFd,
        name: &OsStr,
    ) -> Result<OwnedFd, Errno> {
        self.pass(path, Call::Create, 0)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        retry(|| fs::openat(&dir, name, flags | OFlags::CLOEXEC, Mode::from_raw_mode(0o644)))
    }

    /// Opens a directory in another, not following a symbolic link.
    pub(super) fn open_dir_at(
        &self,
        path: &Path,
        dir: impl AsFd,
        name: &OsStr,
    ) -> Result<OwnedFd, Errno> {
        self.pass(path, Call::Open, 0)?;
        retry(|| fs::openat(&dir, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty()))
    }

    /// Creates a file that only its owner can read and write.
    pub(super) fn create(
        &self,
        path: &Path,
        dir: impl AsFd,
        name: &OsStr,
    ) -> Result<OwnedFd, Errno> {
        self.pass(path, Call::Create, 0)?;
        // `O_EXCL` also refuses a symbolic link that another user has put there (open(2)).
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        retry(|| fs::openat(&dir, name, flags | OFlags::NOFOLLOW, Mode::RUSR | Mode::WUSR))
    }

    /// Returns the state of an open file.
    pub(super) fn stat(&self, path: &Path, file: impl AsFd) -> Result<Facts, Errno> {
        self.pass(path, Call::Stat, 0)?;
        match fs::statx(&file, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS) {
            Ok(found) => Ok(Facts::of_statx(&found)),
            // Some sandboxes forbid statx.
            Err(Errno::NOSYS | Errno::PERM) => fs::fstat(&file).map(|found| Facts::of(&found)),
            Err(error) => Err(error),
        }
    }

    /// Returns the state of a name in a directory, not following a symbolic link.
    pub(super) fn stat_at(
        &self,
        path: &Path,
        dir: impl AsFd,
        name: &OsStr,
    ) -> Result<Facts, Errno> {
        self.pass(path, Call::Stat, 0)?;
        match fs::statx(&dir, name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS) {
            Ok(found) => Ok(Facts::of_statx(&found)),
            Err(Errno::NOSYS | Errno::PERM) => {
                fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW).map(|found| Facts::of(&found))
            }
            Err(error) => Err(error),
        }
    }

    /// Takes a lock, or fails at once with `EWOULDBLOCK` if another process has it.
    pub(super) fn lock(
        &self,
        path: &Path,
        file: impl AsFd,
        operation: FlockOperation,
    ) -> Result<(), Errno> {
        self.pass(path, Call::Lock, 0)?;
        retry(|| fs::flock(&file, operation))
    }

    /// Reads up to `bytes.len()` bytes from `offset` on.
    pub(super) fn read(
        &self,
        path: &Path,
        file: impl AsFd,
        bytes: &mut [u8],
        offset: u64,
    ) -> Result<usize, Errno> {
        self.pass(path, Call::Read, 0)?;
        retry(|| rustix::io::pread(&file, &mut *bytes, offset))
    }

    /// Writes all of `bytes` at `offset`.
    pub(super) fn write(
        &self,
        path: &Path,
        file: impl AsFd,
        mut bytes: &[u8],
        mut offset: u64,
    ) -> Result<(), Errno> {
        while !bytes.is_empty() {
            let allowed = self.pass(path, Call::Write { offset, bytes }, bytes.len())?;
            let count = retry(|| rustix::io::pwrite(&file, &bytes[..allowed], offset))?;
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
    pub(super) fn share(&self, path: &Path, from: impl AsFd, to: impl AsFd) -> Result<(), Errno> {
        self.pass(path, Call::Clone, 0)?;
        retry(|| fs::ioctl_ficlone(&to, &from))
    }

    /// Copies up to `len` bytes at the same offset, in the kernel.
    pub(super) fn copy(
        &self,
        path: &Path,
        from: impl AsFd,
        to: impl AsFd,
        offset: u64,
        len: usize,
    ) -> Result<usize, Errno> {
        self.pass(path, Call::Copy, 0)?;
        retry(|| {
            let (mut there, mut here) = (offset, offset);
            fs::copy_file_range(&from, Some(&mut there), &to, Some(&mut here), len)
        })
    }

    /// Returns the offset of the next data or hole at or after an offset. Fails with `ENXIO` at the
    /// end.
    pub(super) fn seek(
        &self,
        path: &Path,
        file: impl AsFd,
        to: fs::SeekFrom,
    ) -> Result<u64, Errno> {
        self.pass(path, Call::Stat, 0)?;
        fs::seek(&file, to)
    }

    pub(super) fn set_length(&self, path: &Path, file: impl AsFd, len: u64) -> Result<(), Errno> {
        self.pass(path, Call::SetLength(len), 0)?;
        retry(|| fs::ftruncate(&file, len))
    }

    /// Sets the permission and set-id bits.
    pub(super) fn set_mode(&self, path: &Path, file: impl AsFd, mode: u32) -> Result<(), Errno> {
        self.pass(path, Call::Metadata, 0)?;
        fs::fchmod(&file, Mode::from_raw_mode(mode))
    }

    pub(super) fn set_owner(
        &self,
        path: &Path,
        file: impl AsFd,
        (uid, gid): (u32, u32),
    ) -> Result<(), Errno> {
        self.pass(path, Call::Metadata, 0)?;
        let owner = rustix::process::Uid::from_raw(uid);
        let group = rustix::process::Gid::from_raw(gid);
        fs::fchown(&file, Some(owner), Some(group))
    }

    pub(super) fn set_times(
        &self,
        path: &Path,
        file: impl AsFd,
        times: &fs::Timestamps,
    ) -> Result<(), Errno> {
        self.pass(path, Call::Metadata, 0)?;
        fs::futimens(&file, times)
    }

    /// Returns the names of a file's extended attributes, each with its NUL.
    pub(super) fn attributes(&self, path: &Path, file: impl AsFd) -> Result<Vec<u8>, Errno> {
        self.pass(path, Call::Stat, 0)?;
        with_growing_buffer(|buffer| fs::flistxattr(&file, spare_capacity(buffer)))
    }

    /// Returns the value of an extended attribute.
    pub(super) fn attribute(
        &self,
        path: &Path,
        file: impl AsFd,
        name: &CStr,
    ) -> Result<Vec<u8>, Errno> {
        self.pass(path, Call::Stat, 0)?;
        with_growing_buffer(|buffer| fs::fgetxattr(&file, name, spare_capacity(buffer)))
    }

    pub(super) fn set_attribute(
        &self,
        path: &Path,
        file: impl AsFd,
        name: &CStr,
        value: &[u8],
    ) -> Result<(), Errno> {
        self.pass(path, Call::Attribute, 0)?;
        fs::fsetxattr(&file, name, value, fs::XattrFlags::empty())
    }

    pub(super) fn remove_attribute(
        &self,
        path: &Path,
        file: impl AsFd,
        name: &CStr,
    ) -> Result<(), Errno> {
        self.pass(path, Call::Attribute, 0)?;
        fs::fremovexattr(&file, name)
    }

    /// Syncs one file or directory and the metadata needed to find it.
    pub(super) fn sync(&self, path: &Path, file: impl AsFd) -> Result<(), Errno> {
        self.pass(path, Call::Sync, 0)?;
        // `fdatasync` would not sync the owner and the mode, which are part of the edit.
        retry(|| fs::fsync(&file))
    }

    /// Syncs the whole file system of `file`.
    pub(super) fn sync_all(&self, path: &Path, file: impl AsFd) -> Result<(), Errno> {
        self.pass(path, Call::SyncAll, 0)?;
        retry(|| fs::syncfs(&file))
    }

    /// Renames `from` to `to`, both in `dir`. `path` is the full path of `from`.
    pub(super) fn rename(
        &self,
        path: &Path,
        dir: impl AsFd,
        from: &OsStr,
        to: (&OsStr, &Path),
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        self.pass(path, Call::Rename(to.1), 0)?;
        // Plain `renameat` works on every kernel and file system; the flags of `renameat2` do not.
        if flags.is_empty() {
            retry(|| fs::renameat(&dir, from, &dir, to.0))
        } else {
            retry(|| fs::renameat_with(&dir, from, &dir, to.0, flags))
        }
    }

    pub(super) fn remove(&self, path: &Path, dir: impl AsFd, name: &OsStr) -> Result<(), Errno> {
        self.pass(path, Call::Remove, 0)?;
        retry(|| fs::unlinkat(&dir, name, AtFlags::empty()))
    }

    pub(super) fn remove_dir(
        &self,
        path: &Path,
        dir: impl AsFd,
        name: &OsStr,
    ) -> Result<(), Errno> {
        self.pass(path, Call::Remove, 0)?;
        retry(|| fs::unlinkat(&dir, name, AtFlags::REMOVEDIR))
    }

    /// Creates a directory that only its owner can use, with the sticky bit.
    pub(super) fn make_dir(&self, path: &Path, dir: impl AsFd, name: &OsStr) -> Result<(), Errno> {
        self.pass(path, Call::MakeDir, 0)?;
        retry(|| fs::mkdirat(&dir, name, Mode::RWXU | Mode::SVTX))
    }

    pub(super) fn link(
        &self,
        path: &Path,
        dir: impl AsFd,
        name: &OsStr,
        target: &Path,
    ) -> Result<(), Errno> {
        self.pass(path, Call::Link, 0)?;
        retry(|| fs::symlinkat(target, &dir, name))
    }

    /// Returns the target of a symbolic link.
    pub(super) fn read_link(
        &self,
        path: &Path,
        dir: impl AsFd,
        name: &OsStr,
    ) -> Result<PathBuf, Errno> {
        self.pass(path, Call::Read, 0)?;
        let target = retry(|| fs::readlinkat(&dir, name, Vec::new()))?;
        Ok(OsString::from_vec(target.into_bytes()).into())
    }

    /// Returns the names in a directory without `.` and `..`.
    pub(super) fn list(&self, path: &Path, dir: impl AsFd) -> Result<Vec<OsString>, Errno> {
        self.pass(path, Call::List, 0)?;
        let mut names = Vec::new();
        // The directory is opened again, so the position of `dir` does not change.
        for entry in fs::Dir::read_from(&dir)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(OsStr::from_bytes(name).to_owned());
            }
        }
        Ok(names)
    }
}

/// Repeats a call while a signal interrupts it.
fn retry<T>(call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    rustix::io::retry_on_intr(call)
}

/// Makes a call with a buffer that grows while it is too small, up to the kernel's limit of 64 KB
/// for the names and the value of extended attributes (xattr(7)).
fn with_growing_buffer(
    mut call: impl FnMut(&mut Vec<u8>) -> Result<usize, Errno>,
) -> Result<Vec<u8>, Errno> {
    let mut size = 256;
    loop {
        let mut buffer = Vec::with_capacity(size);
        match call(&mut buffer) {
            Err(Errno::RANGE) if size < 64 * 1024 => size *= 16,
            Err(errno) => return Err(errno),
            Ok(_) => return Ok(buffer),
        }
    }
}

/// Converts an error number to the standard library's error.
pub(super) fn error(errno: Errno) -> io::Error {
    io::Error::from_raw_os_error(errno.raw_os_error())
}
