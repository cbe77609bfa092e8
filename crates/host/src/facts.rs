//! The state of a file, by one `statx`.

use std::os::fd::AsFd;

use becalm_core::fs::FileKind;
use rustix::fs::{
    AtFlags, FileType, Stat, Statx, StatxAttributes, StatxFlags, Timespec, Timestamps, major,
    minor, statat, statx,
};
use rustix::io::{Errno, Result};
use rustix::path::Arg;

use crate::fingerprint::Fingerprint;
use crate::tree::look;

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
            Err(Errno::NOSYS | Errno::PERM) => of_stat(&statat(dir, path, flags)?),
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

/// Converts a result of `stat`, whose field types differ between architectures. Inode flags are unknown there; writing
/// a protected file fails with `EPERM`.
#[allow(
    clippy::unnecessary_cast,
    clippy::useless_conversion,
    reason = "no-ops on x86-64, needed elsewhere"
)]
fn of_stat(found: &Stat) -> Statx {
    let mut facts = look::none();
    facts.stx_dev_major = major(found.st_dev as u64);
    facts.stx_dev_minor = minor(found.st_dev as u64);
    facts.stx_ino = found.st_ino as u64;
    facts.stx_size = u64::try_from(found.st_size).unwrap_or(0);
    facts.stx_blocks = u64::try_from(found.st_blocks).unwrap_or(0);
    (facts.stx_atime.tv_sec, facts.stx_atime.tv_nsec) =
        (found.st_atime as i64, found.st_atime_nsec as u32);
    (facts.stx_mtime.tv_sec, facts.stx_mtime.tv_nsec) =
        (found.st_mtime as i64, found.st_mtime_nsec as u32);
    (facts.stx_ctime.tv_sec, facts.stx_ctime.tv_nsec) =
        (found.st_ctime as i64, found.st_ctime_nsec as u32);
    (facts.stx_nlink, facts.stx_mode) = (found.st_nlink as u32, found.st_mode as u16);
    (facts.stx_uid, facts.stx_gid) = (found.st_uid as u32, found.st_gid as u32);
    facts
}
