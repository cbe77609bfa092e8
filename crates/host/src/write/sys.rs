//! Every call by which [`super`] looks at or changes the file system, one method a call.
//!
//! A test can stand in front of them ([`Faults`]) and let the n-th one fail, tear a write
//! in two, or behave as if the process had been killed there.

use std::ffi::{CStr, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::buffer::spare_capacity;
use rustix::fs::{self, AtFlags, FlockOperation, Mode, OFlags, RenameFlags, StatxFlags};
use rustix::io::Errno;

use super::fingerprint::Facts;

/// What is about to be done to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Call<'a> {
    /// Opening something that exists.
    Open,
    /// Asking for a file's stamp, type or attributes.
    Stat,
    /// Reading bytes.
    Read,
    /// Listing a directory.
    List,
    /// Taking an advisory lock.
    Lock,
    /// Making a new, empty file.
    Create,
    /// Making the file share the blocks of another.
    Clone,
    /// Copying bytes from another file, in the kernel.
    Copy,
    /// Writing bytes.
    Write {
        /// Where.
        offset: u64,
        /// What.
        bytes: &'a [u8],
    },
    /// Setting the length, in bytes.
    SetLength(u64),
    /// Setting mode, owner or times.
    Metadata,
    /// Setting or removing an extended attribute.
    Attribute,
    /// Bringing one file or directory to the disk.
    Sync,
    /// Bringing a whole file system to the disk.
    SyncAll,
    /// Giving the file this name, in the place of what had it.
    Rename(&'a Path),
    /// Taking a name away.
    Remove,
    /// Making a directory.
    MakeDir,
    /// Making a symbolic link.
    Link,
}

impl Call<'_> {
    /// True for a call that changes something on the disk.
    #[must_use]
    pub fn changes(&self) -> bool {
        !matches!(self, Self::Open | Self::Stat | Self::Read | Self::List | Self::Lock)
    }
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is made.
    Pass,
    /// It is not made, and gives this error number.
    Fail(i32),
    /// Of a write: only so many bytes are written. Any other call is made.
    Short(usize),
}

/// Stands before every call of a [`super::Writer`]: for tests of what a crash, a full disk or
/// a broken one does.
pub trait Faults: Send + Sync {
    /// Asked before each call on the file `path`.
    fn before(&self, path: &Path, call: Call<'_>) -> Verdict;
}

/// The system, or the system with faults.
#[derive(Clone, Default)]
pub(super) struct Sys {
    faults: Option<Arc<dyn Faults>>,
}

/// Directory descriptors are not for reading a file, so they need no more than this.
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl Sys {
    pub(super) fn with(faults: Arc<dyn Faults>) -> Self {
        Self { faults: Some(faults) }
    }

    /// Lets `faults` speak; gives how many of `len` bytes may be written.
    fn pass(&self, path: &Path, call: Call<'_>, len: usize) -> Result<usize, Errno> {
        match self.faults.as_ref().map(|faults| faults.before(path, call)) {
            None | Some(Verdict::Pass) => Ok(len),
            Some(Verdict::Short(count)) => Ok(count.min(len)),
            Some(Verdict::Fail(errno)) => Err(Errno::from_raw_os_error(errno)),
        }
    }

    /// Opens a file. Never waits for the other end of a FIFO, never follows a link.
    pub(super) fn open(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        self.pass(path, Call::Open, 0)?;
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        again(|| fs::open(path, flags, Mode::empty()))
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
        again(|| fs::openat(&dir, name, flags, Mode::empty()))
    }

    /// Opens a directory, following links.
    pub(super) fn open_dir(&self, path: &Path) -> Result<OwnedFd, Errno> {
        self.pass(path, Call::Open, 0)?;
        again(|| fs::open(path, DIRECTORY, Mode::empty()))
    }

    /// Opens a directory inside another, following no link.
    pub(super) fn open_dir_at(
        &self,
        path: &Path,
        dir: impl AsFd,
        name: &OsStr,
    ) -> Result<OwnedFd, Errno> {
        self.pass(path, Call::Open, 0)?;
        again(|| fs::openat(&dir, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty()))
    }

    /// A new file for its maker alone.
    pub(super) fn create(
        &self,
        path: &Path,
        dir: impl AsFd,
        name: &OsStr,
    ) -> Result<OwnedFd, Errno> {
        self.pass(path, Call::Create, 0)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        again(|| fs::openat(&dir, name, flags | OFlags::NOFOLLOW, Mode::RUSR | Mode::WUSR))
    }

    /// What the system says of an open file.
    pub(super) fn stat(&self, path: &Path, file: impl AsFd) -> Result<Facts, Errno> {
        self.pass(path, Call::Stat, 0)?;
        match fs::statx(&file, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS) {
            Ok(found) => Ok(Facts::of_statx(&found)),
            Err(Errno::NOSYS | Errno::PERM) => fs::fstat(&file).map(|found| Facts::of(&found)),
            Err(error) => Err(error),
        }
    }

    /// What the system says of a name in a directory, links not followed.
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

    /// Takes a lock, or says at once (`EWOULDBLOCK`) that another has it.
    pub(super) fn lock(
        &self,
        path: &Path,
        file: impl AsFd,
        operation: FlockOperation,
    ) -> Result<(), Errno> {
        self.pass(path, Call::Lock, 0)?;
        again(|| fs::flock(&file, operation))
    }

    /// Up to `bytes.len()` bytes from `offset` on.
    pub(super) fn read(
        &self,
        path: &Path,
        file: impl AsFd,
        bytes: &mut [u8],
        offset: u64,
    ) -> Result<usize, Errno> {
        self.pass(path, Call::Read, 0)?;
        again(|| rustix::io::pread(&file, &mut *bytes, offset))
    }

    /// All of `bytes` to `offset`.
    pub(super) fn write(
        &self,
        path: &Path,
        file: impl AsFd,
        mut bytes: &[u8],
        mut offset: u64,
    ) -> Result<(), Errno> {
        while !bytes.is_empty() {
            let may = self.pass(path, Call::Write { offset, bytes }, bytes.len())?;
            let count = again(|| rustix::io::pwrite(&file, &bytes[..may], offset))?;
            if count == 0 && may > 0 {
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
        again(|| fs::ioctl_ficlone(&to, &from))
    }

    /// Copies up to `len` bytes at the same place, in the kernel.
    pub(super) fn copy(
        &self,
        path: &Path,
        from: impl AsFd,
        to: impl AsFd,
        offset: u64,
        len: usize,
    ) -> Result<usize, Errno> {
        self.pass(path, Call::Copy, 0)?;
        again(|| {
            let (mut there, mut here) = (offset, offset);
            fs::copy_file_range(&from, Some(&mut there), &to, Some(&mut here), len)
        })
    }

    /// Where the next data, or the next hole, begins at or after `offset`; `ENXIO` at the end.
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
        again(|| fs::ftruncate(&file, len))
    }

    /// Permission and set-id bits.
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

    /// The names of a file's extended attributes, each with its NUL.
    pub(super) fn attributes(&self, path: &Path, file: impl AsFd) -> Result<Vec<u8>, Errno> {
        self.pass(path, Call::Stat, 0)?;
        grown(|buffer| fs::flistxattr(&file, spare_capacity(buffer)))
    }

    /// The value of an extended attribute.
    pub(super) fn attribute(
        &self,
        path: &Path,
        file: impl AsFd,
        name: &CStr,
    ) -> Result<Vec<u8>, Errno> {
        self.pass(path, Call::Stat, 0)?;
        grown(|buffer| fs::fgetxattr(&file, name, spare_capacity(buffer)))
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

    /// One file or directory, with what is needed to find it again.
    pub(super) fn sync(&self, path: &Path, file: impl AsFd) -> Result<(), Errno> {
        self.pass(path, Call::Sync, 0)?;
        again(|| fs::fsync(&file))
    }

    /// All of the file system on which `file` lies.
    pub(super) fn sync_all(&self, path: &Path, file: impl AsFd) -> Result<(), Errno> {
        self.pass(path, Call::SyncAll, 0)?;
        again(|| fs::syncfs(&file))
    }

    /// Gives `from` the name `to`, both in `dir`; `path` is the full name of `from`.
    pub(super) fn rename(
        &self,
        path: &Path,
        dir: impl AsFd,
        from: &OsStr,
        to: (&OsStr, &Path),
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        self.pass(path, Call::Rename(to.1), 0)?;
        if flags.is_empty() {
            again(|| fs::renameat(&dir, from, &dir, to.0))
        } else {
            again(|| fs::renameat_with(&dir, from, &dir, to.0, flags))
        }
    }

    pub(super) fn remove(&self, path: &Path, dir: impl AsFd, name: &OsStr) -> Result<(), Errno> {
        self.pass(path, Call::Remove, 0)?;
        again(|| fs::unlinkat(&dir, name, AtFlags::empty()))
    }

    pub(super) fn remove_dir(
        &self,
        path: &Path,
        dir: impl AsFd,
        name: &OsStr,
    ) -> Result<(), Errno> {
        self.pass(path, Call::Remove, 0)?;
        again(|| fs::unlinkat(&dir, name, AtFlags::REMOVEDIR))
    }

    /// A new directory for its maker alone, with the sticky bit.
    pub(super) fn make_dir(&self, path: &Path, dir: impl AsFd, name: &OsStr) -> Result<(), Errno> {
        self.pass(path, Call::MakeDir, 0)?;
        again(|| fs::mkdirat(&dir, name, Mode::RWXU | Mode::SVTX))
    }

    pub(super) fn link(
        &self,
        path: &Path,
        dir: impl AsFd,
        name: &OsStr,
        target: &Path,
    ) -> Result<(), Errno> {
        self.pass(path, Call::Link, 0)?;
        again(|| fs::symlinkat(target, &dir, name))
    }

    /// Where a symbolic link points to.
    pub(super) fn read_link(
        &self,
        path: &Path,
        dir: impl AsFd,
        name: &OsStr,
    ) -> Result<PathBuf, Errno> {
        self.pass(path, Call::Read, 0)?;
        let target = again(|| fs::readlinkat(&dir, name, Vec::new()))?;
        Ok(OsString::from_vec(target.into_bytes()).into())
    }

    /// The names in a directory, `.` and `..` left out.
    pub(super) fn list(&self, path: &Path, dir: impl AsFd) -> Result<Vec<OsString>, Errno> {
        self.pass(path, Call::List, 0)?;
        let mut names = Vec::new();
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

/// Makes a call again while a signal interrupts it.
fn again<T>(call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    rustix::io::retry_on_intr(call)
}

/// Calls with a buffer that grows while it is too small, up to the kernel's limit of 64 KB
/// for the names and the value of extended attributes (xattr(7)).
fn grown(mut call: impl FnMut(&mut Vec<u8>) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
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

/// The system's error in the standard library's form.
pub(super) fn error(errno: Errno) -> io::Error {
    io::Error::from_raw_os_error(errno.raw_os_error())
}
