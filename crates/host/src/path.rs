//! Paths as bytes; on Unix these are the same. Names in directories.

use std::ffi::OsStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use bstr::BString;
use rustix::fs::{AtFlags, Dir, FileType, statat};
use rustix::io::Errno;

/// Returns the bytes of a path.
#[must_use]
pub fn path_bytes(path: &Path) -> BString {
    path.as_os_str().as_bytes().into()
}

/// Returns the path of some bytes.
#[must_use]
pub fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

/// Returns the path without links; the path itself if it cannot be resolved.
#[must_use]
pub fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Returns the names and kinds of the entries of a directory.
pub(crate) fn entries_of(dir: &OwnedFd) -> Result<Vec<(BString, FileType)>, Errno> {
    let mut entries = Vec::new();
    // The directory is opened again, so its position does not change.
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            entries.push((name.into(), entry.file_type()));
        }
    }
    Ok(entries)
}

/// Returns true if a directory tells upper from lower case: a listed name in the other case is not found.
/// `None` if there is no such name. This costs one lookup and needs no knowledge of how each file system
/// marks such directories.
pub(crate) fn is_case_sensitive<'n>(
    dir: &OwnedFd,
    names: impl IntoIterator<Item = &'n [u8]>,
    is_listed: impl Fn(&[u8]) -> bool,
) -> Option<bool> {
    let swapped = |byte: u8| if byte.is_ascii_alphabetic() { byte ^ 0x20 } else { byte };
    let others = names.into_iter().map(|name| name.iter().copied().map(swapped).collect());
    let other: Vec<u8> =
        others.into_iter().find(|other: &Vec<u8>| other.is_ascii() && !is_listed(other))?;
    Some(statat(dir, &other[..], AtFlags::SYMLINK_NOFOLLOW).err() == Some(Errno::NOENT))
}

/// Returns the path of an open file of this process in /proc.
pub(crate) fn proc_path(fd: &impl AsRawFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}
