//! Reads the identity of the file system that a file is on ([`becalm_core::index::Volume`]).

use std::ffi::CString;
use std::fs::Metadata;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use becalm_core::index::hash;
use becalm_core::index::volume::{IdentifiedBy, Listing, Volume};
use bstr::{BStr, ByteSlice};
use rustc_hash::FxHashMap;
use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, statx};
use rustix::io::Errno;

use crate::path::path_of;

/// `STATX_MNT_ID_UNIQUE` of Linux 6.8.
const UNIQUE_MOUNT: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// The file systems of fingerprints, each read once.
#[derive(Debug, Default)]
pub(crate) struct Volumes {
    known: Mutex<FxHashMap<(u32, u32), (u64, bool)>>,
    /// Directories below which times are trusted on every file system. `None` trusts them everywhere:
    /// to compare with a fingerprint from before, which has no file system if they were not trusted.
    trusted: Option<Vec<PathBuf>>,
}

impl Volumes {
    /// Trusts times below these directories, and on the file systems that are known to set them.
    pub(crate) fn trusting(below: &[PathBuf]) -> Self {
        Self { trusted: Some(below.to_vec()), ..Self::default() }
    }

    /// Returns the number of the file system of a file; 0 if it cannot be read, or if the times of
    /// its directories prove nothing. `found` is the result of `statx` for the path.
    pub(crate) fn of(&self, path: &BStr, found: &Statx) -> u64 {
        let device = (found.stx_dev_major, found.stx_dev_minor);
        let lock = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock().get(&device).copied();
        let (number, is_timed) = known.unwrap_or_else(|| {
            let read = volume_of(path, device).unwrap_or_default();
            lock().insert(device, read);
            read
        });
        let is_below = |trusted: &PathBuf| path_of(path).starts_with(trusted);
        match &self.trusted {
            Some(trusted) if !is_timed && !trusted.iter().any(is_below) => 0,
            _ => number,
        }
    }
}

/// Returns the number of the file system of a file, and true if the times of its directories show
/// each change.
fn volume_of(path: &BStr, (major, minor): (u32, u32)) -> Result<(u64, bool), Errno> {
    let facts = file_system(path)?;
    let volume = Volume {
        kind: facts.f_type as u32,
        fsid: fsid_of(&facts),
        blocks: facts.f_blocks,
        read_only: facts.f_flags as u64 & libc::ST_RDONLY != 0,
        major,
        minor,
    };
    let own = own_words(&volume, path).unwrap_or_default();
    Ok((volume.number(&own), volume.shows_changes(&own)))
}

/// Calls `statfs`. rustix gives the type and the identifier by two functions, which are two calls.
#[allow(unsafe_code, reason = "statfs has no safe form with all fields")]
fn file_system(path: &BStr) -> Result<libc::statfs64, Errno> {
    let path = CString::new(path.as_bytes()).map_err(|_| Errno::INVAL)?;
    let mut facts = MaybeUninit::<libc::statfs64>::uninit();
    // SAFETY: the path ends with a NUL byte, and the structure is read only if the call filled it.
    match unsafe { libc::statfs64(path.as_ptr(), facts.as_mut_ptr()) } {
        0 => Ok(unsafe { facts.assume_init() }),
        _ => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}

/// Returns `f_fsid`, whose two words the type of libc keeps private.
#[allow(unsafe_code, reason = "the field has no accessor")]
fn fsid_of(facts: &libc::statfs64) -> u64 {
    const { assert!(size_of::<libc::fsid_t>() == size_of::<[u32; 2]>()) };
    // SAFETY: `fsid_t` is two integers of 32 bits (statfs(2)).
    let [low, high] = unsafe { (&raw const facts.f_fsid).cast::<[u32; 2]>().read() };
    u64::from(high) << 32 | u64::from(low)
}

/// Returns the number of the file system of a file; 0 if it cannot be read. `facts` are those of the
/// file at the path.
#[must_use]
pub fn volume_number(path: &Path, facts: &Metadata) -> u64 {
    let device = (rustix::fs::major(facts.dev()), rustix::fs::minor(facts.dev()));
    volume_of(path.as_os_str().as_bytes().into(), device).unwrap_or_default().0
}

/// Returns the words of the mount or of the backing file. `None` if they are not known.
fn own_words(volume: &Volume, path: &BStr) -> Option<Vec<u64>> {
    match volume.identified_by() {
        IdentifiedBy::Mount => {
            let found = statx(CWD, path.as_bytes(), AtFlags::empty(), UNIQUE_MOUNT).ok()?;
            let is_unique = found.stx_mask & UNIQUE_MOUNT.bits() != 0;
            let boot = std::fs::read("/proc/sys/kernel/random/boot_id").ok()?;
            is_unique.then(|| vec![found.stx_mnt_id, hash::bytes(0, boot.trim_ascii_end())])
        }
        IdentifiedBy::BackingFile => {
            let Volume { major, minor, .. } = volume;
            let link = format!("/sys/dev/block/{major}:{minor}/loop/backing_file");
            let name = std::fs::read(link).ok()?;
            let file = path_of(name.trim_ascii_end()).metadata().ok()?;
            let times = [file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec()];
            let words = [file.ino(), file.size()].into_iter();
            Some(words.chain(times.map(i64::cast_unsigned)).collect())
        }
        _ => None,
    }
}

/// Returns [`Listing::hash`] of the names in a directory.
pub(crate) fn listing_of(path: &BStr) -> Option<u64> {
    let mut listing = Listing::default();
    for entry in path_of(path).read_dir().ok()? {
        listing.add(entry.ok()?.file_name().as_bytes());
    }
    Some(listing.hash())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_trusted_below_a_directory_and_not_beside_it() {
        let trusted = |below: &str| {
            let found =
                statx(CWD, "/proc/self", AtFlags::empty(), StatxFlags::BASIC_STATS).unwrap();
            Volumes::trusting(&[below.into()]).of("/proc/self".into(), &found) != 0
        };
        assert_eq!(
            ["/proc", "/proc/self", "/proc/sel", "/pro"].map(trusted),
            [true, true, false, false]
        );
    }
}
