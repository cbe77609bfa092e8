//! Reads ranges of a file under edit.
//!
//! The file is not mapped. If it is truncated meanwhile, a read returns an error and no signal is
//! raised. The cached ranges do not grow with the file's length.

use std::cell::OnceCell;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use object::ReadRef;
use rustix::io::Errno;

use super::sys::{On, Sys};
use crate::ranges::{self, Full, Limits, Ranges};

/// Minimum size and alignment of a read, in bytes.
const BLOCK: u64 = 16 * 1024;
/// Maximum number of bytes cached of one file.
const MAX_READ: u64 = 128 * 1024 * 1024;
/// Maximum number of ranges cached of one file.
const MAX_RANGES: usize = 4096;

/// A file as a cache of the ranges that were read. `&Reader` is an [`object::ReadRef`].
///
/// At most 128 MB of a file are cached. Reads beyond that fail, and [`Reader::error`] returns the
/// reason.
#[derive(Debug)]
pub struct Reader {
    pub(super) file: Arc<OwnedFd>,
    sys: Hidden,
    path: PathBuf,
    len: u64,
    kept: Ranges,
    failed: OnceCell<io::Error>,
}

/// [`Sys`] with an empty `Debug` output.
struct Hidden(Sys);

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sys")
    }
}

impl Reader {
    pub(super) fn new(file: Arc<OwnedFd>, sys: Sys, path: PathBuf, len: u64) -> Self {
        let (kept, failed) = (Ranges::default(), OnceCell::new());
        Self { file, sys: Hidden(sys), path, len, kept, failed }
    }

    /// Returns the first error, if there was one: an error of the system, `UnexpectedEof` if the
    /// file has become shorter since it was opened, or `FileTooLarge` if more was read than the
    /// cache allows. A patch computed after an error must not be used.
    #[must_use]
    pub fn error(&self) -> Option<&io::Error> {
        self.failed.get()
    }

    /// Clears the cache. A prepared file waits for the rest of its batch, and the cached ranges
    /// would be most of the memory of a run.
    pub(super) fn forget(&mut self) {
        self.kept = Ranges::default();
    }

    fn fail(&self, error: io::Error) {
        let _ = self.failed.set(error);
    }

    /// Returns `size` bytes from `offset` on, from the cache or from the file.
    fn get(&self, offset: u64, size: u64) -> Option<&[u8]> {
        // A range beyond the end is an error in the ELF table that names it, not in reading.
        if offset.checked_add(size)? > self.len {
            return None;
        }
        let start = offset - offset % BLOCK;
        let wanted = (offset - start + size).next_multiple_of(BLOCK).min(self.len - start);
        let limits = Limits { bytes: MAX_READ, ranges: MAX_RANGES };
        let read = |start, size| self.read(start, size);
        let got = self.kept.get((offset, size), (start, wanted), limits, read);
        got.unwrap_or_else(|Full| {
            self.fail(io::ErrorKind::FileTooLarge.into());
            None
        })
    }

    /// Reads `size` bytes, or fewer after an error.
    fn read(&self, start: u64, size: u64) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
        let on = On { path: &self.path, fd: &self.file };
        let (filled, result) = fill(&self.sys.0, on, &mut bytes, start);
        if let Err(error) = result {
            self.fail(error);
        }
        bytes.truncate(filled);
        bytes
    }
}

impl<'d> ReadRef<'d> for &'d Reader {
    fn len(self) -> Result<u64, ()> {
        Ok(self.len)
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'d [u8], ()> {
        if size == 0 { Ok(&[]) } else { self.get(offset, size).ok_or(()) }
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'d [u8], ()> {
        ranges::until(range, delimiter, self.len, |offset, size| self.get(offset, size))
    }
}

/// Fills `bytes` from `offset` on. Returns `UnexpectedEof` if the file ends before.
pub(super) fn read_exact(sys: &Sys, on: On<'_>, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    fill(sys, on, bytes, offset).1
}

/// Fills `bytes` and returns how many of them were read, and the reason if not all were.
fn fill(sys: &Sys, on: On<'_>, bytes: &mut [u8], offset: u64) -> (usize, io::Result<()>) {
    let mut filled = 0;
    while filled < bytes.len() {
        match sys.read(on, &mut bytes[filled..], offset + filled as u64) {
            Ok(0) => return (filled, Err(io::ErrorKind::UnexpectedEof.into())),
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(errno) => return (filled, Err(errno.into())),
        }
    }
    (filled, Ok(()))
}
