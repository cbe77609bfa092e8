//! What was read of a file, kept by the ranges that were asked for: the parser and the editor
//! hold on to slices of them, so the list only grows at its end. Both readers of this crate,
//! [`crate::os_fs`]'s and [`crate::write`]'s, are made of it; how they read, and what they do
//! about errors, is their own.

use std::cell::OnceCell;
use std::ops::Range;

/// A string is looked for in no more than this.
const MAX_STRING: u64 = 1024 * 1024;

/// The ranges of one file that were read.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    first: OnceCell<Box<Block>>,
}

/// How much is kept of one file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes at the most.
    pub(crate) bytes: u64,
    /// Ranges at the most.
    pub(crate) ranges: usize,
}

/// More was asked for than is kept.
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

    /// The bytes from `offset` on, `size` of them, where this block holds them all.
    fn slice(&self, offset: u64, size: u64) -> Option<&[u8]> {
        let from = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        let to = from.checked_add(usize::try_from(size).ok()?)?;
        self.bytes.get(from..to)
    }
}

impl Ranges {
    /// The first range, which `read` gives from the beginning of the file where nothing was
    /// read yet.
    pub(crate) fn first(&self, read: impl FnOnce() -> Vec<u8>) -> &[u8] {
        &self.first.get_or_init(|| Block::new(0, read())).bytes
    }

    /// `size` bytes from `offset` on: from what was read, or from the range `wanted` (where it
    /// begins, and how long it is), which `read` then gives; `None` where that is shorter.
    ///
    /// # Errors
    /// [`Full`] where the range would go beyond the limits.
    pub(crate) fn get(
        &self,
        (offset, size): (u64, u64),
        wanted: (u64, u64),
        limits: Limits,
        read: impl FnOnce(u64, u64) -> Vec<u8>,
    ) -> Result<Option<&[u8]>, Full> {
        let (start, length) = wanted;
        let mut cell = &self.first;
        let mut held = 0;
        for _ in 0..limits.ranges {
            let Some(block) = cell.get() else {
                if held + length > limits.bytes {
                    return Err(Full);
                }
                let block = cell.get_or_init(|| Block::new(start, read(start, length)));
                return Ok(block.slice(offset, size));
            };
            if let Some(slice) = block.slice(offset, size) {
                return Ok(Some(slice));
            }
            held += block.bytes.len() as u64;
            cell = &block.next;
        }
        Err(Full)
    }
}

/// The bytes of `range` up to a delimiter, asked of `get` in growing pieces: what
/// [`object::ReadRef::read_bytes_at_until`] is to give of a file of `len` bytes.
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
