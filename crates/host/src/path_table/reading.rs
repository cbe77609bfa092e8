//! Reads directories, their names and fingerprints, by system calls relative to open directories.

use std::os::fd::{AsFd, OwnedFd};

use becalm_core::index::Fingerprint;
use bstr::{BStr, BString, ByteSlice};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Statx, StatxFlags};
use rustix::io::Errno;

use crate::index_store::{OsFingerprints, fingerprint_of};

pub(super) fn open_dir(at: impl AsFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    // If a link replaces a package, it must not lead out of the store.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(at, name, flags, Mode::empty())
}

pub(super) const WANTED: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::MNT_ID);

pub(super) fn facts(dir: &OwnedFd) -> Result<Statx, Errno> {
    rustix::fs::statx(dir, "", AtFlags::EMPTY_PATH, WANTED)
}

pub(super) fn statx_at(dir: &OwnedFd, name: &BString) -> Result<Statx, Errno> {
    rustix::fs::statx(dir, name.as_bytes(), AtFlags::SYMLINK_NOFOLLOW, WANTED)
}

/// The mount that a file is on, 0 if the kernel does not say (before 5.8).
pub(super) fn mount_of(found: &Statx) -> u64 {
    if found.stx_mask & StatxFlags::MNT_ID.bits() != 0 { found.stx_mnt_id } else { 0 }
}

/// Returns the fingerprint of a directory on a file system. Its length is not compared.
pub(super) fn fingerprint(volume: u64, found: &Statx) -> Fingerprint {
    Fingerprint { volume, size: 0, ..fingerprint_of(found) }
}

pub(super) fn fingerprint_at(
    fingerprints: &OsFingerprints,
    path: &BStr,
) -> Result<Fingerprint, Errno> {
    let found = rustix::fs::statx(CWD, path.as_bytes(), AtFlags::SYMLINK_NOFOLLOW, WANTED)?;
    Ok(Fingerprint { size: 0, ..fingerprints.of(path, &found) })
}
