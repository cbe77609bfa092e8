//! Opens a file for an edit: finds it, locks it and records its state.

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
use super::sys::{At, On, Sys};
use crate::facts::Facts;
use crate::fingerprint::Fingerprint;
use crate::reader::{Reader, fill};

/// Time for which a file's times may stay equal while it changes: one tick of the slowest kernel
/// clock (100 Hz), which file systems use for times.
const TICK: Duration = Duration::from_millis(10);
/// Maximum number of opens if the file is replaced between opening and locking.
const ATTEMPTS: usize = 3;

/// A file opened for an edit. It is locked against other becalm processes until it is dropped or
/// written, unless [`super::Writer::open_to_read`] opened it.
#[derive(Debug)]
pub struct FileUnderEdit {
    /// The file's path, with symbolic links resolved.
    pub path: PathBuf,
    pub(super) fd: Arc<OwnedFd>,
    pub(super) facts: Facts,
    /// The reader of the file's content. `&Reader` is an [`object::ReadRef`].
    pub reader: Reader,
}

impl FileUnderEdit {
    /// Opens `path`, following the symbolic links that the rule allows. Locks the file if `locked` is true.
    pub(super) fn open(sys: &Sys, path: &Path, locked: bool) -> Result<Self, WriteError> {
        for _ in 0..ATTEMPTS {
            if let Some(file) = Self::try_open(sys, path, locked)? {
                return Ok(file);
            }
        }
        Err(WriteError::Changed(path.to_owned()))
    }

    /// Returns `None` if the name refers to another file by the time the file is locked.
    fn try_open(sys: &Sys, path: &Path, locked: bool) -> Result<Option<Self>, WriteError> {
        // The path that is renamed later is that of the file itself.
        let (fd, real) = sys.find(path, OFlags::RDONLY)?;
        let on = On { path: &real, fd: &fd };
        let stat = || sys.stat(on).map_err(|errno| WriteError::failed(path, "be opened", errno));
        let mut facts = stat()?;
        if facts.file_type != FileType::RegularFile {
            return Err(WriteError::refused(path, "not a regular file"));
        }
        if locked {
            lock(sys, on)?;
            // A run that held the lock may have written the file in place meanwhile.
            facts = stat()?;
        }
        // A run that held the lock may have renamed a new file to this name meanwhile.
        let named = sys.stat_at(&At::here(&real));
        if named.map(|named| named.fingerprint.id) != Ok(facts.fingerprint.id) {
            return Ok(None);
        }
        if locked && settle(&facts.fingerprint) {
            facts = stat()?;
        }
        let fd = Arc::new(fd);
        let (sys, file, real_path) = (sys.clone(), Arc::clone(&fd), real.clone());
        let reader = Reader::new(facts.fingerprint.size, move |bytes, from| {
            let on = On { path: &real_path, fd: &file };
            fill(bytes, from, |bytes, at| sys.read(on, bytes, at))
        });
        Ok(Some(Self { path: real, fd, facts, reader }))
    }

    /// Returns the device and inode, by which a caller can recognise two paths of one file. A file
    /// must be written before it is opened again, so the caller keeps the ids that it has seen.
    /// Opening it twice at the same time fails with [`WriteError::Locked`].
    #[must_use]
    pub fn id(&self) -> FileId {
        self.facts.fingerprint.id
    }

    /// Returns the file's state when it was opened.
    #[must_use]
    pub fn fingerprint(&self) -> &Fingerprint {
        &self.facts.fingerprint
    }

    pub(super) fn on(&self) -> On<'_> {
        On { path: &self.path, fd: &self.fd }
    }

    pub(super) fn name(&self) -> &OsStr {
        self.path.file_name().unwrap_or(OsStr::new("."))
    }
}

/// Returns the directory of a path.
pub(super) fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Returns the last component of a path, which is a name in [`parent`].
pub(super) fn name(path: &Path) -> Result<OsString, WriteError> {
    path.file_name().map(OsStr::to_owned).ok_or_else(|| WriteError::NotOurs(path.to_owned()))
}

/// Locks a file against other becalm processes. If the file system has no locks, the temporary
/// file's name serves instead, because only one process can create it.
pub(super) fn lock(sys: &Sys, on: On<'_>) -> Result<(), WriteError> {
    match sys.lock(on, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(()),
        Err(Errno::WOULDBLOCK) => Err(WriteError::Locked(on.path.to_owned())),
        Err(errno) if unsupported(errno) => Ok(()),
        Err(errno) => Err(WriteError::failed(on.path, "be locked", errno)),
    }
}

/// Waits until any further change would alter the file's times. Returns true if it waited, so that
/// the caller reads the state again.
fn settle(fingerprint: &Fingerprint) -> bool {
    let (seconds, nanoseconds) = fingerprint.ctime;
    let Ok(seconds) = u64::try_from(seconds) else { return false };
    let changed = UNIX_EPOCH + Duration::new(seconds, nanoseconds);
    // A time in the future cannot be compared with the clock, and waiting for it could take years.
    match SystemTime::now().duration_since(changed) {
        Ok(age) if age < TICK => {
            std::thread::sleep(TICK - age);
            true
        }
        _ => false,
    }
}
