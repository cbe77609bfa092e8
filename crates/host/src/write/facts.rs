//! The state of a file that is edited, and the metadata that a rewrite preserves.

use rustix::fs::{FileType, StatxAttributes, Timespec, Timestamps};

use crate::fingerprint::Fingerprint;

/// A fingerprint and the other results of one `statx`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    pub(super) fingerprint: Fingerprint,
    pub(super) file_type: FileType,
    /// Time of the last read.
    pub(super) atime: (i64, u32),
    /// Blocks of 512 bytes on the disk.
    pub(super) blocks: u64,
    /// The flags of the inode (`chattr`, fs-verity), as far as they are known.
    pub(super) attributes: StatxAttributes,
}

impl Facts {
    pub(super) fn of_statx(found: &rustix::fs::Statx) -> Self {
        Self {
            fingerprint: Fingerprint::of_statx(found),
            file_type: FileType::from_raw_mode(u32::from(found.stx_mode)),
            atime: (found.stx_atime.tv_sec, found.stx_atime.tv_nsec),
            blocks: found.stx_blocks,
            attributes: found.stx_attributes,
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
            fingerprint: Fingerprint::of(found),
            file_type: FileType::from_raw_mode(found.st_mode as _),
            atime: (found.st_atime as i64, found.st_atime_nsec as u32),
            blocks: u64::try_from(found.st_blocks).unwrap_or(0),
            attributes: StatxAttributes::empty(),
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
