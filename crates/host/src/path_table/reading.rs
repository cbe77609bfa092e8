//! Reads directories, their names and fingerprints, by system calls relative to open directories.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use becalm_core::index::Fingerprint;
use becalm_core::path;
use bstr::{BStr, BString, ByteSlice};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, Statx, StatxFlags};
use rustix::io::Errno;

use super::LeftOut;
use crate::index_store::{OsFingerprints, fingerprint_of};
use crate::path::in_other_case;

/// Bytes of directory entries that are read at once.
const BUFFER: usize = 8 * 1024;

/// The path that the text of a link at `path` leads to, by its letters.
pub(super) fn resolved(path: &BStr, text: &[u8]) -> BString {
    match text.starts_with(b"/") {
        true => path::normal(text),
        false => path::normal(&[path::parent(path).as_bytes(), b"/", text].concat()),
    }
}

/// Fails for a directory whose names are found in another case too.
pub(super) fn check_case(dir: &OwnedFd, names: &[(BString, FileType)]) -> Result<(), LeftOut> {
    let known = |name: &[u8]| names.iter().any(|(other, _)| other.as_slice() == name);
    let other_case = |name: &BString| -> Option<BString> {
        let other = BString::from(in_other_case(name));
        (other != *name && name.is_ascii() && !known(&other)).then_some(other)
    };
    let Some(other) = names.iter().find_map(|(name, _)| other_case(name)) else { return Ok(()) };
    // A listing does not show whether lookups ignore the case, so one name is looked up.
    match rustix::fs::statat(dir, other.as_bytes(), AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(()),
        _ => Err(LeftOut::Casefold),
    }
}

pub(super) fn open_dir(at: impl AsFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    // If a link replaces a package, it must not lead out of the store.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(at, name, flags, Mode::empty())
}

/// Returns the names and kinds of the entries of a directory.
pub(super) fn names_in(dir: &OwnedFd) -> Result<Vec<(BString, FileType)>, Errno> {
    let mut names = Vec::new();
    let mut buffer = [MaybeUninit::uninit(); BUFFER];
    let mut entries = RawDir::new(dir, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push((name.into(), entry.file_type()));
        }
    }
    Ok(names)
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
