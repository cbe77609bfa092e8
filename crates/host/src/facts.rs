//! The state of a file, by one `statx`.

use std::os::fd::AsFd;

use becalm_core::fs::FileKind;
use rustix::fs::{AtFlags, FileType, StatxAttributes, StatxFlags, Timespec, Timestamps, statx};
use rustix::io::Result;
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
    pub(crate) fn at(dir: impl AsFd, path: impl Arg, flags: AtFlags) -> Result<Self> {
        let found = statx(dir, path, flags, StatxFlags::BASIC_STATS)?;
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
