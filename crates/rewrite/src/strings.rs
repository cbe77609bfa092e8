//! The dynamic string table with added strings.
//!
//! A string that the table has already, alone or at the end of a longer one, is used again. New
//! strings follow a copy of the old table, so that every old offset stays valid.

use std::ops::Range;

use bstr::ByteSlice;
use object::ReadRef;
use object::elf::{DT_STRSZ, DT_STRTAB};

use crate::RewriteError;
use crate::image::{Image, bytes_at};

/// The table, which is read when the first string is added.
#[derive(Debug, Default)]
pub(crate) struct Strings<'data> {
    old: Option<&'data [u8]>,
    place: Range<u64>,
    added: Vec<u8>,
}

impl<'data> Strings<'data> {
    /// Returns the offset of `string` in the table, and adds the string if it is missing.
    ///
    /// # Errors
    /// Returns [`RewriteError`] if the table is missing or cannot be read.
    pub(crate) fn offset<R: ReadRef<'data>>(
        &mut self,
        image: &Image,
        data: R,
        string: &[u8],
    ) -> Result<u64, RewriteError> {
        let old = match self.old {
            Some(old) => old,
            None => self.read(image, data)?,
        };
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

    fn read<R: ReadRef<'data>>(
        &mut self,
        image: &Image,
        data: R,
    ) -> Result<&'data [u8], RewriteError> {
        let broken = RewriteError::Malformed("its dynamic string table is outside the file");
        let dynamic = image.dynamic.as_ref().ok_or(RewriteError::NotDynamic)?;
        let table = dynamic.value(DT_STRTAB).ok_or(broken.clone())?;
        let size = dynamic.value(DT_STRSZ).ok_or(broken.clone())?;
        let offset = image.file_offset(table, size).ok_or(broken.clone())?;
        let old = bytes_at(data, offset, size).ok_or(broken)?;
        self.place = offset..offset + size;
        self.old = Some(old);
        Ok(old)
    }

    /// Returns the range of the old table in the file and the new table. Returns `None` if no string
    /// was added.
    pub(crate) fn grown(self) -> Option<(Range<u64>, Vec<u8>)> {
        let old = self.old.filter(|_| !self.added.is_empty())?;
        Some((self.place, [old, &self.added].concat()))
    }
}
