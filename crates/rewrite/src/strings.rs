//! The dynamic string table with added strings.
//!
//! A string that the table has already, alone or at the end of a longer one, is used again. New
//! strings follow a copy of the old table, so that every old offset stays valid.

use std::ops::Range;

use bstr::ByteSlice;
use object::elf::{DT_STRSZ, DT_STRTAB};

use crate::image::Image;
use crate::{Result, RewriteError};

/// The table and the strings to add.
pub(crate) struct Strings<'data> {
    image: &'data Image<'data>,
    added: Vec<u8>,
}

impl<'data> Strings<'data> {
    pub(crate) fn new(image: &'data Image<'data>) -> Self {
        Self { image, added: Vec::new() }
    }

    /// Returns the offset of `string` in the table, and adds the string if it is missing.
    ///
    /// # Errors
    /// Returns [`RewriteError`] if the table is missing or cannot be read.
    pub(crate) fn offset(&mut self, string: &[u8]) -> Result<u64> {
        let (_, old) = self.old()?;
        let mut wanted = string.to_vec();
        wanted.push(0);
        // The end of a longer string is a string as well, as linkers merge them.
        if let Some(at) = old.find(&wanted) {
            return Ok(at as u64);
        }
        let at = self.added.find(&wanted).unwrap_or_else(|| {
            self.added.extend(&wanted);
            self.added.len() - wanted.len()
        });
        Ok((old.len() + at) as u64)
    }

    /// Returns the old table and its range in the file.
    fn old(&self) -> Result<(Range<u64>, &'data [u8])> {
        let dynamic = self.image.dynamic.as_ref().ok_or(RewriteError::NotDynamic)?;
        let table = || {
            let (table, size) = (dynamic.value(DT_STRTAB)?, dynamic.value(DT_STRSZ)?);
            let offset = self.image.file_offset(table, size)?;
            Some((offset..offset + size, self.image.bytes_at(offset, size)?))
        };
        table().ok_or(RewriteError::Malformed("its dynamic string table is outside the file"))
    }

    /// Returns the range of the old table in the file and the new table. Returns `None` if no string
    /// was added.
    pub(crate) fn grown(self) -> Option<(Range<u64>, Vec<u8>)> {
        let (place, old) = self.old().ok().filter(|_| !self.added.is_empty())?;
        Some((place, [old, &self.added].concat()))
    }
}
