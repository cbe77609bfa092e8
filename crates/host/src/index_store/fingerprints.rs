//! Reads fingerprints of this machine's files.

use std::time::{SystemTime, UNIX_EPOCH};

use becalm_core::fs::Errno;
use becalm_core::index::build::Fingerprints;
use becalm_core::index::{Fingerprint, Time};
use bstr::{BStr, ByteSlice};
use rustix::fs::{AtFlags, CWD, StatxFlags};

/// Reads fingerprints with `statx`, and remembers the time at which it was created.
#[derive(Clone, Copy, Debug)]
pub struct OsFingerprints {
    now: Time,
}

impl Default for OsFingerprints {
    fn default() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let sec = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
        Self { now: Time { sec, nsec: since.subsec_nanos() } }
    }
}

impl Fingerprints for OsFingerprints {
    fn fingerprint(&self, path: &BStr) -> Result<Fingerprint, Errno> {
        let found =
            rustix::fs::statx(CWD, path.as_bytes(), AtFlags::empty(), StatxFlags::BASIC_STATS)
                .map_err(|errno| Errno(errno.raw_os_error()))?;
        let time = |time: rustix::fs::StatxTimestamp| Time { sec: time.tv_sec, nsec: time.tv_nsec };
        Ok(Fingerprint {
            dev: u64::from(found.stx_dev_major) << 32 | u64::from(found.stx_dev_minor),
            ino: found.stx_ino,
            size: found.stx_size,
            mtime: time(found.stx_mtime),
            ctime: time(found.stx_ctime),
        })
    }

    fn now(&self) -> Time {
        self.now
    }
}
