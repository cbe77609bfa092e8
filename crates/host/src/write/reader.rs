//! Reading of a file under edit what the editor asks for, in a few ranges.
//!
//! Nothing is mapped: a file that is truncated meanwhile gives an error instead of a signal,
//! and what is kept of a file does not grow with its length.

use std::cell::OnceCell;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use object::ReadRef;
use rustix::io::Errno;

use super::sys::{self, Sys};
use crate::ranges::{self, Full, Limits, Ranges};

/// Bytes read at least at once, from a multiple of it.
const BLOCK: u64 = 16 * 1024;
/// Bytes kept of one file at the most.
const MAX_READ: u64 = 128 * 1024 * 1024;
/// Ranges kept of one file at the most.
const MAX_RANGES: usize = 4096;

/// A file as the ranges of it that were asked for. `&Reader` is an [`object::ReadRef`].
///
/// No more than 128 MB are kept of one file; what goes beyond gives no bytes, and
/// [`Reader::error`] says why.
#[derive(Debug)]
pub struct Reader {
    pub(super) file: Arc<OwnedFd>,
    sys: Hidden,
    path: PathBuf,
    len: u64,
    kept: Ranges,
    failed: OnceCell<io::Error>,
}

/// [`Sys`] without anything to print.
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

    /// The first error of reading, if there was one: the system's, `UnexpectedEof` where the
    /// file is shorter than it was when it was opened, `FileTooLarge` where more was asked
    /// for than is kept. A patch computed after an error is not to be trusted.
    #[must_use]
    pub fn error(&self) -> Option<&io::Error> {
        self.failed.get()
    }

    /// Forgets what was read. A file waits for the others of its batch, its patch made; what it
    /// was made of would be most of the memory of a run.
    pub(super) fn forget(&mut self) {
        self.kept = Ranges::default();
    }

    fn fail(&self, error: io::Error) {
        let _ = self.failed.set(error);
    }

    /// `size` bytes from `offset` on, from what was read or from the file.
    fn get(&self, offset: u64, size: u64) -> Option<&[u8]> {
        // Beyond the end lies nothing: that is a fault of the asking table, not of reading.
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

    /// Reads `size` bytes, fewer after an error.
    fn read(&self, start: u64, size: u64) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
        let mut filled = 0;
        while filled < bytes.len() {
            let at = start + filled as u64;
            match self.sys.0.read(&self.path, &*self.file, &mut bytes[filled..], at) {
                Ok(0) => {
                    self.fail(io::ErrorKind::UnexpectedEof.into());
                    break;
                }
                Ok(count) => filled += count,
                Err(errno) => {
                    self.fail(sys::error(errno));
                    break;
                }
            }
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

/// Fills `bytes` from `offset` on; `UnexpectedEof` where the file ends before.
pub(super) fn read_exact(
    sys: &Sys,
    path: &std::path::Path,
    file: &OwnedFd,
    bytes: &mut [u8],
    offset: u64,
) -> io::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        match sys.read(path, file, &mut bytes[filled..], offset + filled as u64) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(sys::error(errno)),
        }
    }
    Ok(())
}
