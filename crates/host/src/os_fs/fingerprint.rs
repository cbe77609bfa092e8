//! The result of `stat`, and the part of it that changes whenever the file does.

use std::time::{SystemTime, UNIX_EPOCH};

use becalm_core::fs::{FileId, FileKind};
use rustix::fs::FileType;

/// Time within which two changes may have equal timestamps. File systems round times to a clock
/// tick (4 ms), a second (ext3, HFS+) or two seconds (FAT).
const GRAIN_NANOSECONDS: i128 = 2_000_000_000;

/// A result of `stat`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stat {
    pub(super) id: FileId,
    pub(super) kind: FileKind,
    /// True for a socket, which is [`FileKind::Other`] and cannot be opened.
    pub(super) socket: bool,
    /// User id of the owner.
    pub(super) owner: u32,
    pub(super) fingerprint: Fingerprint,
}

/// The state of a file or directory. If two fingerprints of one [`FileId`] are equal, the file was
/// not written, renamed, or changed in mode, owner or ACL in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fingerprint {
    mtime: (i64, u32),
    ctime: (i64, u32),
    pub(super) len: u64,
    /// Permission and set-id bits.
    pub(super) mode: u32,
}

impl Fingerprint {
    /// Returns true if a change after `now` (nanoseconds since 1970) might not alter the file's
    /// times, or if the file's clock is ahead of this machine's.
    pub(super) fn may_change_unseen(&self, now: i128) -> bool {
        let nanoseconds = |(s, n): (i64, u32)| i128::from(s) * 1_000_000_000 + i128::from(n);
        // Every change sets ctime; a user can set mtime to any value.
        nanoseconds(self.ctime) + GRAIN_NANOSECONDS > now
    }
}

impl Stat {
    /// Converts the system's structure, whose field types differ between architectures.
    #[allow(
        clippy::unnecessary_cast,
        clippy::useless_conversion,
        reason = "no-ops on x86-64, needed elsewhere"
    )]
    pub(super) fn new(stat: &rustix::fs::Stat) -> Self {
        let file_type = FileType::from_raw_mode(stat.st_mode as _);
        Self {
            id: FileId { dev: stat.st_dev as u64, ino: stat.st_ino as u64 },
            kind: match file_type {
                FileType::RegularFile => FileKind::File,
                FileType::Directory => FileKind::Directory,
                _ => FileKind::Other,
            },
            socket: file_type == FileType::Socket,
            owner: stat.st_uid as u32,
            fingerprint: Fingerprint {
                mtime: (stat.st_mtime as i64, stat.st_mtime_nsec as u32),
                ctime: (stat.st_ctime as i64, stat.st_ctime_nsec as u32),
                len: u64::try_from(stat.st_size).unwrap_or(0),
                mode: stat.st_mode as u32 & 0o7777,
            },
        }
    }
}

/// Returns the time of day in nanoseconds since 1970.
pub(super) fn now() -> i128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i128::try_from(since.as_nanos()).unwrap_or(i128::MAX)
}
