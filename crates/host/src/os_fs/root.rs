//! Makes the system calls, on the real root or inside another one.
//!
//! Inside another root every path goes through `openat2` with `RESOLVE_IN_ROOT` (openat2(2)). The
//! kernel resolves absolute links and `..` against the directory held open, with its usual limits
//! and errors.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use becalm_core::fs::{Errno, FileId};
use bstr::{BString, ByteSlice, ByteVec};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno as OsErrno;

use crate::HostError;
use crate::error::words;
use crate::facts::Facts;
use crate::path::proc_path;

/// Maximum number of attempts of a lookup inside a root. The kernel returns `EAGAIN` if it cannot
/// rule out a concurrent rename.
const RACE_TRIES: usize = 64;

/// The start of all paths.
#[derive(Debug)]
pub(super) enum Root {
    /// The root and current directory of this process.
    Real,
    /// A directory held open (`O_PATH`), and its identity.
    Inside { dir: OwnedFd, id: FileId },
}

impl Root {
    /// Opens another root and checks that the kernel can confine lookups to it.
    pub(super) fn inside(path: &Path) -> Result<Self, HostError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let failed = |what: &str, errno: OsErrno| {
            HostError::unusable(path, format!("{what}: {}", words(&errno.into())))
        };
        let open_root = |errno| failed("cannot be used as a root", errno);
        let dir = rustix::fs::openat(CWD, path, flags, Mode::empty()).map_err(open_root)?;
        let id = Facts::of(&dir).map_err(open_root)?.fingerprint.id;
        // Tried once here, so that an error of a later lookup is one of its path.
        match rustix::fs::openat2(&dir, ".", flags, Mode::empty(), ResolveFlags::IN_ROOT) {
            Ok(_) => Ok(Self::Inside { dir, id }),
            // A sandbox may forbid the call with `EPERM`.
            Err(errno @ (OsErrno::NOSYS | OsErrno::PERM | OsErrno::INVAL)) => {
                Err(failed("another root needs the openat2 system call", errno))
            }
            Err(source) => Err(open_root(source)),
        }
    }

    /// Returns the identity of the directory, or `None` for the real root.
    pub(super) fn id(&self) -> Option<FileId> {
        match self {
            Self::Real => None,
            Self::Inside { id, .. } => Some(*id),
        }
    }

    /// Calls `stat(path)`, following symbolic links.
    pub(super) fn stat(&self, path: &[u8]) -> Result<Facts, Errno> {
        let stat = match self {
            Self::Real => Facts::at(CWD, path, AtFlags::empty()),
            // stat(2) cannot be confined to a root. An `O_PATH` descriptor needs no permission to
            // read the file.
            Self::Inside { .. } => Facts::of(self.open(path, OFlags::PATH)?),
        };
        stat.map_err(errno)
    }

    /// Calls `open(path, flags)`, again if a signal interrupts it.
    pub(super) fn open(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC;
        match self {
            Self::Real => {
                rustix::io::retry_on_intr(|| rustix::fs::openat(CWD, path, flags, Mode::empty()))
                    .map_err(errno)
            }
            Self::Inside { dir, .. } => open_inside(dir, path, flags),
        }
    }

    /// Opens for reading, without waiting for a FIFO's writer and without acquiring a terminal.
    pub(super) fn open_to_read(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        self.open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)
    }

    /// Checks that `open(path, O_RDONLY)` would not fail with `EACCES`, without opening the file.
    pub(super) fn may_read(&self, path: &[u8]) -> Result<(), Errno> {
        use rustix::fs::Access;
        match self {
            Self::Real => {
                // Without `AT_EACCESS` the call would check the real user and group ids, but `open`
                // uses the effective ones.
                rustix::fs::accessat(CWD, path, Access::READ_OK, AtFlags::EACCESS).map_err(errno)
            }
            Self::Inside { .. } => {
                // openat2 with O_PATH reaches the file inside the root; /proc then names that very
                // file.
                let fd = self.open(path, OFlags::PATH)?;
                rustix::fs::accessat(CWD, proc_path(&fd), Access::READ_OK, AtFlags::EACCESS)
                    .map_err(errno)
            }
        }
    }

    /// Calls `readlink(path)`.
    pub(super) fn read_link(&self, path: &[u8]) -> Result<BString, Errno> {
        let target = match self {
            Self::Real => rustix::fs::readlinkat(CWD, path, Vec::new()),
            // An empty path names the link itself, which O_NOFOLLOW has opened.
            Self::Inside { .. } => {
                let fd = self.open(path, OFlags::PATH | OFlags::NOFOLLOW)?;
                match rustix::fs::readlinkat(&fd, "", Vec::new()) {
                    // The kernel returns this errno for a descriptor that is not a link.
                    Err(OsErrno::NOENT) => Err(OsErrno::INVAL),
                    target => target,
                }
            }
        };
        Ok(target.map_err(errno)?.into_bytes().into())
    }

    /// Returns the path with every symbolic link resolved by the kernel.
    pub(super) fn canonicalize(&self, path: &[u8]) -> Result<BString, Errno> {
        let fd = self.open(path, OFlags::PATH)?;
        let whole = path_of(&fd)?;
        let Self::Inside { dir, .. } = self else { return Ok(whole) };
        let top = path_of(dir)?;
        let top = top.trim_end_with(|c| c == '/');
        // openat2 reaches only files below the root. The prefix can differ only if something was
        // renamed between the two reads.
        let rest = whole.strip_prefix(top).ok_or(Errno::NOENT)?;
        Ok(if rest.is_empty() { BString::from("/") } else { BString::from(rest) })
    }

    /// Returns the path of this machine for a path of this root.
    pub(super) fn host_path(&self, path: &[u8]) -> Result<PathBuf, Errno> {
        let fd = self.open(path, OFlags::PATH)?;
        Vec::from(path_of(&fd)?).into_path_buf().map_err(|_| Errno::NOENT)
    }
}

/// Calls `openat2` below `dir`, again if the kernel detected a concurrent rename.
fn open_inside(dir: &OwnedFd, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut last = Errno::NOENT;
    for _ in 0..RACE_TRIES {
        match rustix::fs::openat2(dir, path, flags, Mode::empty(), ResolveFlags::IN_ROOT) {
            Ok(fd) => return Ok(fd),
            Err(again @ (OsErrno::AGAIN | OsErrno::INTR)) => last = errno(again),
            Err(error) => return Err(errno(error)),
        }
    }
    Err(last)
}

/// Returns the path of an open file, from /proc.
fn path_of(fd: &OwnedFd) -> Result<BString, Errno> {
    let link = rustix::fs::readlinkat(CWD, proc_path(fd), Vec::new()).map_err(errno)?;
    Ok(link.into_bytes().into())
}

/// Converts the system's errno to the core's.
pub(super) fn errno(error: OsErrno) -> Errno {
    Errno(error.raw_os_error())
}
