//! Checked access to the ranges of a file for [`super::parse`], with a limit on the work for one
//! file.

use std::cell::Cell;
use std::marker::PhantomData;

use object::pod::{self, Pod};
use object::read::ReadRef;

use super::header::ident;
use super::{ElfError, Ident};

/// The size of a block in bytes. A small read is extended to a whole block. A reader that caches
/// ranges (`object::ReadCache`) then reads the header, the program headers, the interpreter and
/// the notes of most objects in one call.
const BLOCK: u64 = 4096;

/// The limit on the work for one file, in bytes read or their equivalent. The largest real objects
/// need a few hundred kilobytes, for a run path of a thousand directories. The entries of a hostile
/// file could name the same long string, or the same notes, a million times.
const BUDGET: u64 = 16 << 20;

/// A file and the remaining budget for it.
pub(super) struct Source<'data, R> {
    data: R,
    len: u64,
    budget: Cell<u64>,
    marker: PhantomData<&'data [u8]>,
}

impl<'data, R: ReadRef<'data>> Source<'data, R> {
    /// Reads the first fields of the header.
    pub(super) fn open(data: R) -> Result<(Self, Ident), ElfError> {
        let len = data.len().map_err(|()| ElfError::Malformed("its length is unknown"))?;
        let source = Self { data, len, budget: Cell::new(BUDGET), marker: PhantomData };
        let head = source.bytes(0, len.min(64)).unwrap_or_default();
        if !head.starts_with(b"\x7fELF") {
            return Err(ElfError::NotElf);
        }
        let ident = ident(head).ok_or(ElfError::Malformed("its header is truncated or unknown"))?;
        Ok((source, ident))
    }

    /// Returns the length of the file in bytes.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Reads `size` bytes at `offset`. Returns `None` if they are not all in the file or cannot be
    /// read.
    pub(super) fn bytes(&self, offset: u64, size: u64) -> Option<&'data [u8]> {
        let end = offset.checked_add(size).filter(|&end| end <= self.len)?;
        let block = offset - offset % BLOCK;
        let block_end = block.saturating_add(BLOCK).min(self.len);
        if end > block_end {
            return self.data.read_bytes_at(offset, size).ok();
        }
        let bytes = self.data.read_bytes_at(block, block_end - block).ok()?;
        let start = usize::try_from(offset - block).ok()?;
        bytes.get(start..)?.get(..usize::try_from(size).ok()?)
    }

    /// Reads the bytes from `offset` to the end of the block, but at most `max`. A string of unknown
    /// length is read in these units.
    pub(super) fn rest_of_block(&self, offset: u64, max: u64) -> Option<&'data [u8]> {
        self.bytes(offset, max.min(BLOCK - offset % BLOCK).min(self.len.checked_sub(offset)?))
    }

    /// Reads one structure at `offset`.
    pub(super) fn structure<T: Pod>(&self, offset: u64) -> Option<&'data T> {
        let bytes = self.bytes(offset, size_of::<T>() as u64)?;
        pod::from_bytes(bytes).ok().map(|(structure, _)| structure)
    }

    /// Subtracts `cost` from the budget, and returns an error if the budget is too small.
    pub(super) fn spend(&self, cost: u64) -> Result<(), ElfError> {
        let left = self.budget.get().checked_sub(cost);
        self.budget
            .set(left.ok_or(ElfError::Malformed("its dynamic strings and notes exceed 16 MiB"))?);
        Ok(())
    }
}
