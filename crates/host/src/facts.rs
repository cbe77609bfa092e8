//! The state of a file, by one `statx`.

use std::os::fd::AsFd;

use becalm_core::fs::FileKind;
use rustix::fs::{
    AtFlags, FileType, Stat, StatxAttributes, StatxFlags, Timespec, Timestamps, statat, statx,
};
use rustix::io::{Errno, Result};
use rustix::path::Arg;

use crate::fingerprint::Fingerprint;

/// A fingerprint and the other results of one `statx`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) file_type: FileType,
    /// Time of the last read.
    pub(crate) atime: (i64, u32),
    /// Blocks of 512 bytes on the disk.
    pub(crate) blocks: u64,
    /// The flags of the inode (`chattr`, fs-verity), as far as they are known.
    pub(crate) attributes: StatxAttributes,
}

impl Facts {
    /// Returns the state of a path relative to a directory.
    pub(crate) fn at(dir: impl AsFd, path: impl Arg + Copy, flags: AtFlags) -> Result<Self> {
        let found = match statx(&dir, path, flags, StatxFlags::BASIC_STATS) {
            // Linux before 4.11, and some sandboxes.
            Err(Errno::NOSYS | Errno::PERM) => {
                return Ok(Self::of_stat(&statat(dir, path, flags)?));
            }
            found => found?,
        };
        Ok(Self {
            fingerprint: Fingerprint::of(&found),
            file_type: FileType::from_raw_mode(found.stx_mode.into()),
            atime: (found.stx_atime.tv_sec, found.stx_atime.tv_nsec),
            blocks: found.stx_blocks,
            attributes: found.stx_attributes,
        })
    }

    /// Converts a result of `stat`. Inode flags are unknown there; writing a protected file fails with `EPERM`.
    #[allow(
        clippy::unnecessary_cast,
        clippy::useless_conversion,
        reason = "no-ops on x86-64, needed elsewhere"
    )]
    fn of_stat(found: &Stat) -> Self {
        Self {
            fingerprint: Fingerprint::of_stat(found),
            file_type: FileType::from_raw_mode(found.st_mode as _),
            atime: (found.st_atime as i64, found.st_atime_nsec as u32),
            blocks: u64::try_from(found.st_blocks).unwrap_or(0),
            attributes: StatxAttributes::empty(),
        }
    }

    /// Returns the state of an open file.
    pub(crate) fn of(file: impl AsFd) -> Result<Self> {
        Self::at(file, c"", AtFlags::EMPTY_PATH)
    }

    /// Returns the kind for the models.
    pub(crate) fn kind(&self) -> FileKind {
        match self.file_type {
            FileType::RegularFile => FileKind::File,
            FileType::Directory => FileKind::Directory,
            _ => FileKind::Other,
        }
    }

    /// Returns the two times that `futimens` can set.
    pub(crate) fn times(&self) -> Timestamps {
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
