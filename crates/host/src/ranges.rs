//! Caches the ranges of a file that were read. The parser and the editor keep slices of them, so
//! the list only grows at its end. The readers of [`crate::os_fs`] and [`crate::write`] both use
//! it; each has its own way to read and to handle errors.

use std::cell::OnceCell;
use std::ops::Range;

/// Maximum length of a string, including its search for the delimiter.
const MAX_STRING: u64 = 1024 * 1024;

/// The ranges of a file that were read.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    first: OnceCell<Box<Block>>,
}

/// Limits of the cache of one file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Maximum number of bytes.
    pub(crate) bytes: u64,
    /// Maximum number of ranges.
    pub(crate) ranges: usize,
}

/// The error of a read beyond the limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Full;

/// Bytes of the file from `start` on.
#[derive(Debug)]
struct Block {
    start: u64,
    bytes: Vec<u8>,
    next: OnceCell<Box<Block>>,
}

impl Block {
    fn new(start: u64, bytes: Vec<u8>) -> Box<Self> {
        Box::new(Self { start, bytes, next: OnceCell::new() })
    }

    /// Returns `size` bytes from `offset` on, if this block has all of them.
    fn slice(&self, offset: u64, size: u64) -> Option<&[u8]> {
        let from = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        let to = from.checked_add(usize::try_from(size).ok()?)?;
        self.bytes.get(from..to)
    }
}

impl Ranges {
    /// Returns the first range. If nothing was read yet, `read` reads it from the beginning of the
    /// file.
    pub(crate) fn first(&self, read: impl FnOnce() -> Vec<u8>) -> &[u8] {
        &self.first.get_or_init(|| Block::new(0, read())).bytes
    }

    /// Returns `size` bytes from `offset` on, from the cache or from the range `wanted` (start and
    /// length), which `read` then reads. Returns `None` if that range is too short.
    ///
    /// # Errors
    /// Returns [`Full`] if the range would exceed the limits.
    pub(crate) fn get(
        &self,
        (offset, size): (u64, u64),
        wanted: (u64, u64),
        limits: Limits,
        read: impl FnOnce(u64, u64) -> Vec<u8>,
    ) -> Result<Option<&[u8]>, Full> {
        let (start, length) = wanted;
        let mut cell = &self.first;
        let mut cached = 0;
        for _ in 0..limits.ranges {
            let Some(block) = cell.get() else {
                if cached + length > limits.bytes {
                    return Err(Full);
                }
                let block = cell.get_or_init(|| Block::new(start, read(start, length)));
                return Ok(block.slice(offset, size));
            };
            if let Some(slice) = block.slice(offset, size) {
                return Ok(Some(slice));
            }
            cached += block.bytes.len() as u64;
            cell = &block.next;
        }
        Err(Full)
    }
}

/// Implements [`object::ReadRef::read_bytes_at_until`] for a file of `len` bytes: returns the bytes
/// of `range` up to a delimiter, reading growing pieces with `get`.
pub(crate) fn until<'d>(
    range: Range<u64>,
    delimiter: u8,
    len: u64,
    get: impl Fn(u64, u64) -> Option<&'d [u8]>,
) -> Result<&'d [u8], ()> {
    let longest = range.end.min(len).saturating_sub(range.start).min(MAX_STRING);
    let mut size = longest.min(256);
    while size > 0 {
        let bytes = get(range.start, size).ok_or(())?;
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
