//! Reads numbers, strings and sections of a table: what the readers of its records have in common.

use std::sync::Arc;

use bstr::BStr;

use super::header::{Header, Section};
use super::layout::{Kind, Reader, kind};
use super::{Condition, TableError, Time, hash};

/// The conditions of a table, by number.
pub(super) type Conditions<'c> = &'c [Arc<Condition>];

/// Returns the condition with a number.
pub(super) fn condition_at(
    known: Conditions<'_>,
    number: u32,
) -> Result<Arc<Condition>, TableError> {
    let condition = known.get(number as usize).cloned();
    condition.ok_or(TableError::Damaged("it names a guard that it does not have"))
}

/// The bytes of a table with a valid header.
#[derive(Clone, Debug)]
pub struct Table<'a> {
    pub(super) reader: Reader<'a>,
    pub(super) header: Header,
}

impl<'a> Table<'a> {
    /// Reads the header of a table and ignores its checksum.
    pub(super) fn unchecked(bytes: &'a [u8]) -> Result<Self, TableError> {
        let header = Header::read(bytes, bytes.len())?;
        Ok(Self { reader: Reader { endian: header.target.endian, bytes }, header })
    }

    /// Reads the word at an offset.
    pub(super) fn word(&self, at: usize) -> Result<u32, TableError> {
        self.reader.word(at).ok_or(TableError::Damaged("a record leaves it"))
    }

    /// Reads the long at an offset.
    pub(super) fn long(&self, at: usize) -> Result<u64, TableError> {
        self.reader.long(at).ok_or(TableError::Damaged("a record leaves it"))
    }

    /// Reads all records of a section.
    pub(super) fn all<T>(
        &self,
        kind: Kind,
        read: impl Fn(&Self, usize) -> Result<T, TableError>,
    ) -> Result<Vec<T>, TableError> {
        self.section(kind)?.records().map(|at| read(self, at)).collect()
    }

    /// Reads the path of a record, whose place is in `field`, and checks the record.
    pub(super) fn path(&self, at: usize, field: usize, kind: Kind) -> Result<&'a BStr, TableError> {
        let path = self.string(self.word(at + field)?)?;
        self.check(at, kind.size, hash::bytes(0, path))?;
        Ok(path)
    }

    /// Reads what `Writer::times` writes.
    pub(super) fn times(&self, at: usize) -> Result<(Time, Time), TableError> {
        let time = |sec: usize, nsec: usize| {
            let sec = self.long(at + sec)?.cast_signed();
            Ok::<_, TableError>(Time { sec, nsec: self.word(at + nsec)? })
        };
        Ok((time(0, 16)?, time(8, 20)?))
    }

    /// Returns the section of a kind.
    pub(super) fn section(&self, kind: Kind) -> Result<Section, TableError> {
        self.header.section(kind)
    }

    /// Returns the records of a section whose first position and count are at `at`. The error names them.
    pub(super) fn part(
        &self,
        kind: Kind,
        at: usize,
        what: &'static str,
    ) -> Result<Section, TableError> {
        let (first, count) = (self.word(at)? as usize, self.word(at + 4)? as usize);
        self.section(kind)?.part(first, count).ok_or(TableError::Damaged(what))
    }

    /// Returns the string at a place.
    pub(super) fn string(&self, place: u32) -> Result<&'a BStr, TableError> {
        let strings = self.section(kind::STRINGS)?;
        let section = Reader {
            endian: self.reader.endian,
            bytes: &self.reader.bytes[strings.at..strings.at + strings.count],
        };
        let at = place as usize;
        let length = section.half(at).map(usize::from);
        let bytes = length.and_then(|length| section.bytes.get(at + 2..at + 3 + length));
        match bytes {
            Some([string @ .., 0]) => Ok(BStr::new(string)),
            _ => Err(TableError::Damaged("a string leaves it")),
        }
    }

    /// Returns an error if the last word of a record is not the check of the others.
    pub(super) fn check(&self, at: usize, size: usize, seed: u64) -> Result<(), TableError> {
        let record = &self.reader.bytes[at..at + size - 4];
        if self.word(at + size - 4)? == hash::low(seed, record) {
            Ok(())
        } else {
            Err(TableError::Damaged("a record's check does not fit"))
        }
    }
}
