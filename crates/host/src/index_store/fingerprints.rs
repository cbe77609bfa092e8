//! Reads fingerprints of this machine's files.

use std::path::PathBuf;
use std::sync::Arc;

use becalm_core::fs::Errno;
use becalm_core::index::build::Fingerprints;
use becalm_core::index::{Fingerprint, Time};
use bstr::{BStr, ByteSlice};
use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, StatxTimestamp};

use crate::fingerprint::now;
use crate::path::path_of;
use crate::trust::is_for_all;
use crate::volume::{Volumes, listing_of};

/// Reads fingerprints with `statx`, and remembers the time at which it was created.
///
/// The default compares with an index: times count wherever they counted when it was made.
#[derive(Clone, Debug)]
pub struct OsFingerprints {
    now: Time,
    volumes: Arc<Volumes>,
}

impl Default for OsFingerprints {
    fn default() -> Self {
        Self { now: now(), volumes: Arc::default() }
    }
}

impl OsFingerprints {
    /// For making an index: times count on file systems that are known to set them at each change,
    /// and below these directories.
    pub(crate) fn trusting(below: &[PathBuf]) -> Self {
        Self { now: now(), volumes: Arc::new(Volumes::trusting(below)) }
    }

    /// Returns the fingerprint of a directory or link by its `statx`.
    pub(crate) fn of(&self, path: &BStr, found: &Statx) -> Fingerprint {
        Fingerprint { volume: self.volumes.of(path, found), ..fingerprint_of(found) }
    }

    /// Returns true if a file is older than the granularity of the clock.
    ///
    /// # Errors
    /// Returns the errno of `statx`.
    pub fn is_settled(&self, path: &BStr) -> Result<bool, Errno> {
        Ok(self.fingerprint(path)?.is_settled(self.now))
    }
}

/// Converts a result of `statx`, without a file system.
pub(crate) fn fingerprint_of(found: &Statx) -> Fingerprint {
    let time = |time: StatxTimestamp| Time { sec: time.tv_sec, nsec: time.tv_nsec };
    Fingerprint {
        volume: 0,
        ino: found.stx_ino,
        size: found.stx_size,
        mtime: time(found.stx_mtime),
        ctime: time(found.stx_ctime),
    }
}

impl Fingerprints for OsFingerprints {
    fn fingerprint(&self, path: &BStr) -> Result<Fingerprint, Errno> {
        let found =
            rustix::fs::statx(CWD, path.as_bytes(), AtFlags::empty(), StatxFlags::BASIC_STATS);
        let found = found.map_err(|errno| Errno(errno.raw_os_error()))?;
        Ok(self.of(path, &found))
    }

    fn listing(&self, path: &BStr) -> u64 {
        listing_of(path).unwrap_or(0)
    }

    fn is_for_all(&self, path: &BStr) -> bool {
        is_for_all(&path_of(path))
    }

    fn now(&self) -> Time {
        self.now
    }
}
