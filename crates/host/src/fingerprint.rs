//! The state of a file, by which this process detects that the file has changed.

use std::time::{SystemTime, UNIX_EPOCH};

use becalm_core::fs::FileId;
use becalm_core::index::Time;
use rustix::fs::Statx;

/// Time within which two changes may have equal timestamps. File systems round times to a clock
/// tick (4 ms), a second (ext3, HFS+) or two seconds (FAT).
const GRAIN_NANOSECONDS: i128 = 2_000_000_000;

/// State of a file or directory. If two fingerprints are equal, the file was not written, renamed,
/// or changed in mode, owner or ACL in between, except for changes within one tick of the file
/// system's clock.
///
/// An index has another one, [`becalm_core::index::Fingerprint`]: its fields are those of the file
/// format, and its device number holds on other machines and after another mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    /// Device and inode.
    pub id: FileId,
    /// Length in bytes.
    pub size: u64,
    /// Time of the last change of the content: seconds, nanoseconds.
    pub mtime: (i64, u32),
    /// Time of the last change of content or metadata: seconds, nanoseconds.
    pub ctime: (i64, u32),
    /// Number of names.
    pub links: u64,
    /// Permission, set-id and sticky bits.
    pub mode: u32,
    /// User id of the owner.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

impl Fingerprint {
    /// Converts a result of `statx`.
    pub(crate) fn of(found: &Statx) -> Self {
        let time = |time: &rustix::fs::StatxTimestamp| (time.tv_sec, time.tv_nsec);
        let dev = rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor);
        Self {
            id: FileId { dev, ino: found.stx_ino },
            size: found.stx_size,
            mtime: time(&found.stx_mtime),
            ctime: time(&found.stx_ctime),
            links: u64::from(found.stx_nlink),
            mode: u32::from(found.stx_mode) & 0o7777,
            uid: found.stx_uid,
            gid: found.stx_gid,
        }
    }

    /// Returns true if a change after `now` might not alter the file's
    /// times, or if the file's clock is ahead of this machine's.
    pub(crate) fn may_change_unseen(&self, now: Time) -> bool {
        let nanoseconds = |(s, n): (i64, u32)| i128::from(s) * 1_000_000_000 + i128::from(n);
        // Every change sets ctime; a user can set mtime to any value.
        nanoseconds(self.ctime) + GRAIN_NANOSECONDS > nanoseconds((now.sec, now.nsec))
    }

    /// Returns true if the file belongs to root or to this user, nobody else may write it, and it
    /// has no set-id bit: see [`crate::ask`].
    pub(crate) fn may_run(&self) -> bool {
        let ours = self.uid == 0 || self.uid == rustix::process::geteuid().as_raw();
        ours && self.mode & 0o6022 == 0
    }

    pub(crate) fn set_id(&self) -> bool {
        self.mode & 0o6000 != 0
    }
}

/// Returns the time of the real-time clock.
pub(crate) fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let sec = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    Time { sec, nsec: since.subsec_nanos() }
}
