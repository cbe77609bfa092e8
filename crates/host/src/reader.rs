//! Reads ranges of a file and caches them. The parser and the editor keep slices of them, so the
//! list only grows at its end.
//!
//! The file is not mapped. If it is truncated meanwhile, a read returns fewer bytes and no signal is
//! raised. The cached ranges do not grow with the file's length.

use std::cell::OnceCell;
use std::fmt;
use std::io;
use std::ops::Range;

use object::ReadRef;
use rustix::io::Errno;

/// Maximum length of a string, including its search for the delimiter.
const MAX_STRING: u64 = 1024 * 1024;

/// Minimum size and alignment of a read, in bytes.
const BLOCK: u64 = 16 * 1024;
/// Maximum number of bytes of one file, whatever its tables claim.
const MOST_BYTES: u64 = 128 * 1024 * 1024;
/// Maximum number of ranges of one file.
const MOST_RANGES: usize = 4096;

/// Fills a buffer from an offset on. Returns how many bytes were read, and the reason if not all
/// were.
type Fill = dyn Fn(&mut [u8], u64) -> (usize, io::Result<()>) + Send;

/// A file as a cache of the ranges that were read. `&Reader` is an [`object::ReadRef`].
///
/// The number of cached bytes is limited. Reads beyond that fail, and [`Reader::error`] returns the
/// reason.
pub struct Reader {
    fill: Box<Fill>,
    len: u64,
    first: OnceCell<Box<Block>>,
    failed: OnceCell<io::Error>,
}

/// Bytes of the file from `start` on.
struct Block {
    start: u64,
    bytes: Vec<u8>,
    next: OnceCell<Box<Block>>,
}

impl Block {
    /// Returns `size` bytes from `offset` on, if this block has all of them.
    fn slice(&self, offset: u64, size: u64) -> Option<&[u8]> {
        let from = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        let to = from.checked_add(usize::try_from(size).ok()?)?;
        self.bytes.get(from..to)
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("len", &self.len).finish_non_exhaustive()
    }
}

impl Reader {
    /// Makes a reader of a file of `len` bytes.
    pub(crate) fn new(
        len: u64,
        fill: impl Fn(&mut [u8], u64) -> (usize, io::Result<()>) + Send + 'static,
    ) -> Self {
        let (first, failed) = (OnceCell::new(), OnceCell::new());
        Self { fill: Box::new(fill), len, first, failed }
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
    pub(crate) fn forget(&mut self) {
        self.first = OnceCell::new();
    }

    /// Returns the first block of the file, whatever length it claims. Call this before any other
    /// read.
    pub(crate) fn head(&self) -> &[u8] {
        &self.first.get_or_init(|| self.read(0, BLOCK)).bytes
    }

    /// Returns `size` bytes from `offset` on, from the cache or from the file.
    fn get(&self, offset: u64, size: u64) -> Option<&[u8]> {
        // A range beyond the end is an error in the ELF table that names it, not in reading.
        if offset.checked_add(size)? > self.len {
            return None;
        }
        let start = offset - offset % BLOCK;
        // A table may claim more bytes than the file has; only the file's length is allocated.
        let length = (offset - start + size).next_multiple_of(BLOCK).min(self.len - start);
        let mut cell = &self.first;
        let mut cached = 0;
        for _ in 0..MOST_RANGES {
            match cell.get() {
                None if cached + length > MOST_BYTES => break,
                None => {
                    let block = cell.get_or_init(|| self.read(start, length));
                    return block.slice(offset, size);
                }
                Some(block) => {
                    if let Some(slice) = block.slice(offset, size) {
                        return Some(slice);
                    }
                    cached += block.bytes.len() as u64;
                    cell = &block.next;
                }
            }
        }
        let _ = self.failed.set(io::ErrorKind::FileTooLarge.into());
        None
    }

    /// Reads `size` bytes, or fewer after an error.
    fn read(&self, start: u64, size: u64) -> Box<Block> {
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
        let (filled, result) = (self.fill)(&mut bytes, start);
        if let Err(error) = result {
            let _ = self.failed.set(error);
        }
        bytes.truncate(filled);
        Box::new(Block { start, bytes, next: OnceCell::new() })
    }
}

impl<'d> ReadRef<'d> for &'d Reader {
    fn len(self) -> Result<u64, ()> {
        Ok(self.len)
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'d [u8], ()> {
        if size == 0 { Ok(&[]) } else { self.get(offset, size).ok_or(()) }
    }

    /// Reads growing pieces.
    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'d [u8], ()> {
        let longest = range.end.min(self.len).saturating_sub(range.start).min(MAX_STRING);
        let mut size = longest.min(256);
        while size > 0 {
            let bytes = self.get(range.start, size).ok_or(())?;
            if let Some(end) = bytes.iter().position(|&b| b == delimiter) {
                return Ok(&bytes[..end]);
            }
            if size == longest {
                break;
            }
            size = longest.min(size * 4);
        }
        Err(())
    }
}

/// Fills `bytes` from `offset` on with the results of `read`. Returns how many of them were read, and
/// the reason if not all were: `UnexpectedEof` if the file ends before.
pub(crate) fn fill(
    bytes: &mut [u8],
    offset: u64,
    read: impl Fn(&mut [u8], u64) -> Result<usize, Errno>,
) -> (usize, io::Result<()>) {
    let mut filled = 0;
    while filled < bytes.len() {
        match read(&mut bytes[filled..], offset + filled as u64) {
            Ok(0) => return (filled, Err(io::ErrorKind::UnexpectedEof.into())),
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(errno) => return (filled, Err(errno.into())),
        }
    }
    (filled, Ok(()))
}
