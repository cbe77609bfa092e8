//! Finds out whether a page of a file is in memory.

use std::fs::File;
use std::io::{IoSliceMut, Result};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use rustix::process::geteuid;

use super::PAGE;

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
/// (`can_do_mincore` of Linux mm/mincore.c), so the page is read with `RWF_NOWAIT`. If the
/// file system does not support that flag, `mincore` is used for root and for the owner of the file.
#[must_use]
pub fn of(file: &File, page: u64) -> Residency {
    // Otherwise the kernel would read the neighbours of a page that is not in memory.
    let _ = fadvise(file, 0, None, Advice::Random);
    let mut byte = [0];
    match preadv2(file, &mut [IoSliceMut::new(&mut byte)], page * PAGE, ReadWriteFlags::NOWAIT) {
        Ok(1) => Residency::InMemory,
        Err(Errno::AGAIN) => Residency::OnDisk,
        // The file is shorter.
        Ok(_) => Residency::Unknown,
        Err(_) => by_mincore(file, page).unwrap_or(Residency::Unknown),
    }
}

#[allow(unsafe_code, reason = "no crate that is used here has mincore")]
fn by_mincore(file: &File, page: u64) -> Result<Residency> {
    let (facts, user) = (file.metadata()?, geteuid());
    if !(user.is_root() || facts.uid() == user.as_raw()) || facts.len() <= page * PAGE {
        return Ok(Residency::Unknown);
    }
    let size = rustix::param::page_size();
    let offset = page * PAGE / size as u64 * size as u64;
    let mut state = 0u8;
    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
    // SAFETY: a new mapping, which nothing reads; the kernel writes one byte for one page.
    unsafe {
        let map = mmap(
            std::ptr::null_mut(),
            size,
            ProtFlags::READ,
            MapFlags::SHARED,
            file.as_fd(),
            offset,
        )?;
        let failed = libc::mincore(map, size, &raw mut state) != 0;
        munmap(map, size)?;
        if failed {
            return Ok(Residency::Unknown);
        }
    }
    Ok(if state & 1 == 1 { Residency::InMemory } else { Residency::OnDisk })
}
