//! Finds out whether a page of a file is in memory.

use std::fs::File;
use std::io::IoSliceMut;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::process::geteuid;

use super::{PAGE, open};

/// Whether a page is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residency {
    /// It is.
    InMemory,
    /// It would be read from the disk.
    OnDisk,
    /// The file system does not say so to this user.
    Unknown,
}

/// Returns whether a page of a file is in memory.
///
/// For an ordinary user `mincore` counts every page of a file of another user as being in memory
/// (`can_do_mincore` of Linux mm/mincore.c), so such a page is read with `RWF_NOWAIT`. That
/// starts to read a page that is not in memory, and finds it there if the disk is quicker than the
/// next step of the kernel: about one time in twenty.
#[must_use]
pub fn of(file: &File, page: u64) -> Residency {
    by_mincore(file, page).unwrap_or_else(|| by_reading(file, page))
}

/// Returns whether a page of the regular file at a path is in memory; unknown if that cannot be opened.
#[must_use]
pub fn at(path: &str, page: u64) -> Residency {
    open(Path::new(path)).map_or(Residency::Unknown, |file| of(&file, page))
}

fn by_reading(file: &File, page: u64) -> Residency {
    // Otherwise the kernel would read the neighbours of a page that is not in memory.
    let _ = fadvise(file, 0, None, Advice::Random);
    let mut byte = [0];
    match preadv2(file, &mut [IoSliceMut::new(&mut byte)], page * PAGE, ReadWriteFlags::NOWAIT) {
        Ok(1) => Residency::InMemory,
        Err(Errno::AGAIN) => Residency::OnDisk,
        // The file is shorter, or the file system does not support the flag.
        _ => Residency::Unknown,
    }
}

/// Returns `None` for a file of another user.
#[allow(unsafe_code, reason = "no crate that is used here has mincore")]
fn by_mincore(file: &File, page: u64) -> Option<Residency> {
    let (facts, user) = (file.metadata().ok()?, geteuid());
    let is_own = user.is_root() || facts.uid() == user.as_raw();
    (is_own && facts.len() > page * PAGE).then_some(())?;
    let size = rustix::param::page_size();
    let offset = page * PAGE / size as u64 * size as u64;
    let mut state = 0u8;
    let (at, readable, shared) = (std::ptr::null_mut(), ProtFlags::READ, MapFlags::SHARED);
    // SAFETY: a new mapping, which nothing reads; the kernel writes one byte for one page.
    let is_known = unsafe {
        let map = mmap(at, size, readable, shared, file.as_fd(), offset).ok()?;
        let result = libc::mincore(map, size, &raw mut state);
        munmap(map, size).is_ok() && result == 0
    };
    is_known.then_some(if state & 1 == 1 { Residency::InMemory } else { Residency::OnDisk })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A disk that is quick answers a look that reads at once, so this looks often.
    #[test]
    fn a_page_of_this_user_is_looked_at_without_being_read() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("data");
        fs::write(&path, vec![7; 1 << 20]).expect("written");
        let file = File::open(&path).expect("is there");
        let is_out = (0..100).any(|_| {
            file.sync_all().expect("written");
            fadvise(&file, 0, None, Advice::DontNeed).expect("dropped");
            std::thread::sleep(std::time::Duration::from_millis(10));
            by_mincore(&file, 3) == Some(Residency::OnDisk)
        });
        if !is_out {
            return becalm_testing::skip("the scratch directory is in memory");
        }
        for _ in 0..1000 {
            assert_eq!(of(&file, 3), Residency::OnDisk);
        }
        assert_eq!(of(&file, 1 << 20), Residency::Unknown, "behind the end");
    }
}
