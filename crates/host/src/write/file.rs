//! A file under edit: found, locked, and remembered as it was.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use becalm_core::fs::FileId;
use rustix::fs::{FileType, FlockOperation, OFlags};
use rustix::io::Errno;

use super::dir::unsupported;
use super::error::WriteError;
use super::fingerprint::{Facts, Fingerprint};
use super::reader::Reader;
use super::sys::{self, Sys};

/// How long a file's times may stand still while it changes: one tick of the slowest kernel
/// clock (100 Hz), from which file systems take them.
const TICK: Duration = Duration::from_millis(10);
/// How often a file is opened again that is replaced between opening and locking.
const ATTEMPTS: usize = 3;

/// A file opened for an edit, locked against any other becalm until it is dropped or written
/// (unless [`super::Writer::open_to_read`] opened it).
#[derive(Debug)]
pub struct FileUnderEdit {
    pub(super) path: PathBuf,
    pub(super) facts: Facts,
    pub(super) reader: Reader,
    locked: bool,
}

impl FileUnderEdit {
    /// Opens `path`, links followed, and locks it where `locked` says so.
    pub(super) fn open(sys: &Sys, path: &Path, locked: bool) -> Result<Self, WriteError> {
        for _ in 0..ATTEMPTS {
            if let Some(file) = Self::try_open(sys, path, locked)? {
                return Ok(file);
            }
        }
        Err(WriteError::Changed { path: path.to_owned() })
    }

    /// `None` where the name went to another file before the lock was there.
    fn try_open(sys: &Sys, path: &Path, locked: bool) -> Result<Option<Self>, WriteError> {
        let failed = |source| WriteError::Open { path: path.to_owned(), source };
        let (real, fd) = match sys.open(path, OFlags::RDONLY) {
            Ok(fd) => (path.to_owned(), fd),
            Err(Errno::LOOP) => {
                let real = path.canonicalize().map_err(failed)?;
                let fd = sys.open(&real, OFlags::RDONLY);
                (real, fd.map_err(|errno| failed(sys::error(errno)))?)
            }
            Err(errno) => return Err(failed(sys::error(errno))),
        };
        let stat = || sys.stat(&real, &fd).map_err(|errno| failed(sys::error(errno)));
        let mut facts = stat()?;
        if facts.file_type != FileType::RegularFile {
            return Err(WriteError::NotRegular { path: path.to_owned() });
        }
        if locked {
            lock(sys, &real, &fd)?;
        }
        let named = sys.stat_at(&real, rustix::fs::CWD, real.as_os_str());
        if named.map(|named| named.fingerprint.id) != Ok(facts.fingerprint.id) {
            return Ok(None);
        }
        if locked && settle(&facts.fingerprint) {
            facts = stat()?;
        }
        let reader = Reader::new(Arc::new(fd), sys.clone(), real.clone(), facts.fingerprint.size);
        Ok(Some(Self { path: real, facts, reader, locked }))
    }

    /// The file itself, where the path that was asked for was a symbolic link to it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Device and inode: what two paths to one file share. A file must not be opened a second
    /// time before the first is written, so the caller keeps the ids it has seen. (While the
    /// first is open, a second opening gives [`WriteError::Locked`].)
    #[must_use]
    pub fn id(&self) -> FileId {
        self.facts.fingerprint.id
    }

    /// The file as it was when it was opened.
    #[must_use]
    pub fn fingerprint(&self) -> &Fingerprint {
        &self.facts.fingerprint
    }

    /// What the file holds. `&Reader` is an [`object::ReadRef`].
    #[must_use]
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// The file with its lock; that it is still what was read shows later.
    pub(super) fn locked(mut self, sys: &Sys) -> Result<Self, WriteError> {
        if !self.locked {
            lock(sys, &self.path, &self.reader.file)?;
            self.locked = true;
        }
        Ok(self)
    }

    pub(super) fn name(&self) -> &OsStr {
        self.path.file_name().unwrap_or(OsStr::new("."))
    }

    pub(super) fn parent(&self) -> PathBuf {
        parent(&self.path)
    }
}

/// The directory a path lies in.
pub(super) fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// The last part of a path, which names something in [`parent`].
pub(super) fn name(path: &Path) -> Result<OsString, WriteError> {
    path.file_name()
        .map(OsStr::to_owned)
        .ok_or_else(|| WriteError::NotOurs { path: path.to_owned() })
}

/// Takes the lock that keeps two becalms from one file. Where the file system has none, the
/// name of the temporary file, which only one can make, serves instead.
pub(super) fn lock(sys: &Sys, path: &Path, fd: &OwnedFd) -> Result<(), WriteError> {
    match sys.lock(path, fd, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(()),
        Err(Errno::WOULDBLOCK) => Err(WriteError::Locked { path: path.to_owned() }),
        Err(errno) if unsupported(errno) => Ok(()),
        Err(errno) => Err(WriteError::Failed {
            path: path.to_owned(),
            what: "be locked",
            source: sys::error(errno),
        }),
    }
}

/// Waits until a further change would show in the file's times; gives whether that took any
/// time, so that the stamp has to be taken again.
fn settle(fingerprint: &Fingerprint) -> bool {
    let (seconds, nanoseconds) = fingerprint.ctime;
    let Ok(seconds) = u64::try_from(seconds) else { return false };
    let changed = UNIX_EPOCH + Duration::new(seconds, nanoseconds);
    // A time in the future says nothing, and waiting for it would help nobody.
    match SystemTime::now().duration_since(changed) {
        Ok(age) if age < TICK => {
            std::thread::sleep(TICK - age);
            true
        }
        _ => false,
    }
}
