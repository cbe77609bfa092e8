//! The state of a file, and the metadata that a rewrite preserves.

use becalm_core::fs::FileId;
use rustix::fs::{FileType, StatxAttributes, Timespec, Timestamps};

/// State of a file. Equal fingerprints mean that the file has not changed, except for changes
/// within one tick of the file system's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    pub(super) fn set_id(&self) -> bool {
        self.mode & 0o6000 != 0
    }
}

/// A fingerprint and the other results of one `statx`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    pub(super) fingerprint: Fingerprint,
    pub(super) file_type: FileType,
    /// Time of the last read.
    pub(super) atime: (i64, u32),
    /// Blocks of 512 bytes on the disk.
    pub(super) blocks: u64,
    pub(super) immutable: bool,
    pub(super) append_only: bool,
    /// True if fs-verity protects the file.
    pub(super) verity: bool,
}

impl Facts {
    pub(super) fn of_statx(found: &rustix::fs::Statx) -> Self {
        let time = |time: &rustix::fs::StatxTimestamp| (time.tv_sec, time.tv_nsec);
        let is = |attribute| found.stx_attributes.contains(attribute);
        let dev = rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor);
        Self {
            fingerprint: Fingerprint {
                id: FileId { dev, ino: found.stx_ino },
                size: found.stx_size,
                mtime: time(&found.stx_mtime),
                ctime: time(&found.stx_ctime),
                links: u64::from(found.stx_nlink),
                mode: u32::from(found.stx_mode) & 0o7777,
                uid: found.stx_uid,
                gid: found.stx_gid,
            },
            file_type: FileType::from_raw_mode(u32::from(found.stx_mode)),
            atime: time(&found.stx_atime),
            blocks: found.stx_blocks,
            immutable: is(StatxAttributes::IMMUTABLE),
            append_only: is(StatxAttributes::APPEND),
            verity: is(StatxAttributes::VERITY),
        }
    }

    /// Converts a result of `stat`, for systems without `statx` (Linux before 4.11, some
    /// sandboxes). Inode flags are unknown there; writing a protected file fails with `EPERM`.
    #[allow(
        clippy::unnecessary_cast,
        clippy::useless_conversion,
        reason = "no-ops on x86-64, needed elsewhere"
    )]
    pub(super) fn of(found: &rustix::fs::Stat) -> Self {
        Self {
            fingerprint: Fingerprint {
                id: FileId { dev: found.st_dev as u64, ino: found.st_ino as u64 },
                size: u64::try_from(found.st_size).unwrap_or(0),
                mtime: (found.st_mtime as i64, found.st_mtime_nsec as u32),
                ctime: (found.st_ctime as i64, found.st_ctime_nsec as u32),
                links: found.st_nlink as u64,
                mode: found.st_mode as u32 & 0o7777,
                uid: found.st_uid as u32,
                gid: found.st_gid as u32,
            },
            file_type: FileType::from_raw_mode(found.st_mode as _),
            atime: (found.st_atime as i64, found.st_atime_nsec as u32),
            blocks: u64::try_from(found.st_blocks).unwrap_or(0),
            immutable: false,
            append_only: false,
            verity: false,
        }
    }

    /// Returns the two times that `futimens` can set.
    pub(super) fn times(&self) -> Timestamps {
        let time = |(seconds, nanoseconds): (i64, u32)| Timespec {
            tv_sec: seconds,
            tv_nsec: nanoseconds.into(),
        };
        Timestamps {
            last_access: time(self.atime),
            last_modification: time(self.fingerprint.mtime),
        }
    }
}
