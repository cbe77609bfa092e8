//! A file as [`super::parse`] reads it: few ranges, each checked, and a limit on
//! the work that one file may cause.

use std::marker::PhantomData;

use object::pod::{self, Pod};
use object::read::ReadRef;

use super::ElfError;

/// Small reads are widened to aligned blocks of this many bytes, so that a reader
/// that caches by range (`object::ReadCache`) fetches the header, the program
/// headers, the interpreter and the notes of most objects at once.
const BLOCK: u64 = 4096;

/// How much one file may cost, in bytes read or their equivalent. The largest real
/// objects need a few hundred kilobytes (a run path of a thousand directories);
/// entries of a hostile one could otherwise name the same long string, or the same
/// notes, a million times.
const BUDGET: u64 = 16 << 20;

/// The file and what is left of its budget.
pub(super) struct Source<'data, R> {
    data: R,
    len: u64,
    budget: u64,
    marker: PhantomData<&'data [u8]>,
}

impl<'data, R: ReadRef<'data>> Source<'data, R> {
    pub(super) fn new(data: R) -> Result<Self, ElfError> {
        let len = data.len().map_err(|()| ElfError::Malformed("its length is unknown"))?;
        Ok(Self { data, len, budget: BUDGET, marker: PhantomData })
    }

    /// Length of the file in bytes.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// `size` bytes at `offset`; `None` where they are not all in the file or could
    /// not be read.
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

    /// The bytes from `offset` to the end of their block, `max` at the most: the
    /// unit in which a string of unknown length is read.
    pub(super) fn rest_of_block(&self, offset: u64, max: u64) -> Option<&'data [u8]> {
        self.bytes(offset, max.min(BLOCK - offset % BLOCK).min(self.len.checked_sub(offset)?))
    }

    /// One structure at `offset`.
    pub(super) fn structure<T: Pod>(&self, offset: u64) -> Option<&'data T> {
        let bytes = self.bytes(offset, size_of::<T>() as u64)?;
        pod::from_bytes(bytes).ok().map(|(structure, _)| structure)
    }

    /// Takes `cost` from the budget.
    pub(super) fn spend(&mut self, cost: u64) -> Result<(), ElfError> {
        self.budget = self
            .budget
            .checked_sub(cost)
            .ok_or(ElfError::Malformed("its dynamic strings and notes exceed 16 MiB"))?;
        Ok(())
    }
}
