//! Reads the parts of an index file that the start of a program needs, in a few ranges.
//!
//! The header, the section directory and each record read are checked. The checksum of the whole
//! table is checked by [`super::Table::read`] only.

use bstr::{BStr, BString};

use super::encode::bucket_of;
use super::header::{Header, LONGEST, Section};
use super::layout::{self, Reader, kind};
use super::tls::Start;
use super::{TableError, Target, hash};
use crate::elf::Endian;

/// Bytes of a file at an offset.
pub trait ReadAt {
    /// Fills `into` from the bytes at `at`. Returns `None` if the file has fewer bytes or cannot be
    /// read.
    fn read_at(&self, at: u64, into: &mut [u8]) -> Option<()>;
}

/// An index file with a valid header.
#[derive(Debug)]
pub struct Ranged<R> {
    source: R,
    /// Offset of the table in the file.
    table: u64,
    header: Header,
    /// The first bytes of the table, which were read for the header.
    first: Vec<u8>,
}

impl<R: ReadAt> Ranged<R> {
    /// Reads the header of an index file of `length` bytes.
    ///
    /// # Errors
    /// Returns [`TableError`] if the file has no valid header.
    pub fn open(source: R, length: u64) -> Result<Self, TableError> {
        // becalm writes files that end with the table; its place is read from there.
        let behind = (layout::TRAILER + layout::BACKWARD) as u64;
        let back = length.checked_sub(behind).map(|at| bytes(&source, at + 4, 4)).transpose()?;
        // The header that names the byte order is not found yet, so both are tried.
        for endian in back.iter().flat_map(|_| [Endian::Little, Endian::Big]) {
            let back = back.as_deref().and_then(|bytes| (Reader { endian, bytes }).word(0));
            if let Some(table) = length.checked_sub(u64::from(back.unwrap_or(0)))
                && table + behind < length
            {
                match header(&source, table, length) {
                    Ok((header, first)) => return Ok(Self { source, table, header, first }),
                    Err(TableError::NotATable) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Err(TableError::NotATable)
    }

    /// Returns the machine of the index.
    #[must_use]
    pub fn target(&self) -> Target {
        self.header.target
    }

    /// Returns the checksum, which tells the index from others.
    ///
    /// # Errors
    /// Returns [`TableError`] if the file is damaged.
    pub fn checksum(&self) -> Result<u64, TableError> {
        let bytes = self.bytes(layout::HEADER_CHECKSUM, 8)?;
        let reader = Reader { endian: self.header.target.endian, bytes: &bytes };
        reader.long(0).ok_or(TableError::Unreadable)
    }

    /// Returns true if the index has the paths below packages ([`super::Index::paths`]).
    #[must_use]
    pub fn has_paths(&self) -> bool {
        self.header.has(kind::PATH_ROOTS)
    }

    /// Returns true if the index has the bindings of the program at a real path.
    ///
    /// # Errors
    /// Returns [`TableError`] if the file is damaged.
    pub fn binds(&self, path: &BStr) -> Result<bool, TableError> {
        let section = self.header.section(kind::BOUND_PROGRAMS)?;
        let wanted = hash::low(0, path);
        let records = self.all(section)?;
        for record in records.chunks_exact(kind::BOUND_PROGRAMS.size) {
            // A program without members is known and not bound.
            if self.word(record, 0) == wanted
                && self.word(record, 12) > 0
                && self.string(self.word(record, 4))? == path
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the largest [`Start::static_tls`] of the programs.
    #[must_use]
    pub fn static_tls(&self) -> u32 {
        self.header.static_tls
    }

    /// Returns the programs whose needs `is_meant` selects, with these.
    ///
    /// # Errors
    /// Returns [`TableError`] if the file is damaged.
    pub fn programs(
        &self,
        is_meant: impl Fn(Start) -> bool,
    ) -> Result<Vec<(BString, Start)>, TableError> {
        let records = self.all(self.header.section(kind::PROGRAMS)?)?;
        let needs = records.chunks_exact(kind::PROGRAMS.size).map(|it| (it, self.need(it)));
        let meant = needs.filter(|(_, need)| is_meant(*need));
        meant.map(|(record, need)| Ok((self.string(self.word(record, 0))?, need))).collect()
    }

    /// Returns the paths of the stores' own directories.
    ///
    /// # Errors
    /// Returns [`TableError`] if the file is damaged.
    pub fn roots(&self) -> Result<Vec<BString>, TableError> {
        const OUTSIDE: TableError = TableError::Damaged("its roots leave it");
        let pool = self.header.section(kind::POOL)?;
        let conditions = self.header.section(kind::CONDITIONS)?;
        let place = self.header.roots as usize;
        let words = |count| self.all(pool.part(place, count).ok_or(OUTSIDE)?);
        let count = self.word(&words(1)?, 0) as usize;
        let set = words(count.saturating_add(2))?;
        if !self.is_whole(&set, place as u64) {
            return Err(TableError::Damaged("the check of its roots does not fit"));
        }
        let root = |condition: &[u8]| {
            let condition = conditions.part(self.word(condition, 0) as usize, 1).ok_or(OUTSIDE)?;
            let path = self.bytes(condition.at, 4)?;
            self.string(self.word(&path, 0))
        };
        set[4..set.len() - 4].chunks_exact(4).map(root).collect()
    }

    /// Returns the needs of the program at a real path; `None` if the index has no record of it, or
    /// a damaged one.
    ///
    /// # Errors
    /// Returns [`TableError`] if the file is damaged.
    pub fn program(&self, path: &BStr) -> Result<Option<Start>, TableError> {
        const OUTSIDE: TableError = TableError::Damaged("its programs leave it");
        let programs = self.header.section(kind::PROGRAMS)?;
        let buckets = self.header.section(kind::PROGRAM_BUCKETS)?;
        if programs.count == 0 || buckets.count == 0 {
            return Ok(None);
        }
        let bucket = bucket_of(path, buckets.count);
        let ends =
            self.bytes(buckets.at + 4 * bucket.saturating_sub(1), 8.min(4 * buckets.count))?;
        let end = |index: usize| self.word(&ends, 4 * index) as usize;
        let (from, to) = if bucket == 0 { (0, end(0)) } else { (end(0), end(1)) };
        if from > to || to > programs.count {
            return Err(OUTSIDE);
        }
        let size = kind::PROGRAMS.size;
        let records = self.bytes(programs.at + from * size, (to - from) * size)?;
        // The path is part of the input of the check.
        let is_its = |record: &&[u8]| self.is_whole(record, hash::bytes(0, path));
        Ok(records.chunks_exact(size).find(is_its).map(|record| self.need(record)))
    }

    /// Returns the needs in the record of a program.
    fn need(&self, record: &[u8]) -> Start {
        let no_start = self.word(record, 12) & layout::PROGRAM_NO_START != 0;
        Start { static_tls: self.word(record, 8), no_start }
    }

    /// Returns true if the last word of a record or set is the check of the others.
    fn is_whole(&self, record: &[u8], seed: u64) -> bool {
        let (known, check) = record.split_at(record.len() - 4);
        self.word(check, 0) == hash::low(seed, known)
    }

    /// Returns the word at an offset of a record, which has it.
    fn word(&self, record: &[u8], at: usize) -> u32 {
        let reader = Reader { endian: self.header.target.endian, bytes: record };
        reader.word(at).unwrap_or(u32::MAX)
    }

    /// Reads a range of the table.
    fn bytes(&self, at: usize, length: usize) -> Result<Vec<u8>, TableError> {
        // A damaged length must not allocate memory.
        if at.checked_add(length).is_none_or(|end| end > self.header.length) {
            return Err(TableError::Damaged("a record leaves it"));
        }
        match self.first.get(at..at + length) {
            Some(known) => Ok(known.to_vec()),
            None => bytes(&self.source, self.table + at as u64, length),
        }
    }

    fn all(&self, section: Section) -> Result<Vec<u8>, TableError> {
        self.bytes(section.at, section.count * section.size)
    }

    fn string(&self, place: u32) -> Result<BString, TableError> {
        /// Most strings are shorter than this.
        const USUAL: usize = 256;
        let strings = self.header.section(kind::STRINGS)?;
        let outside = || TableError::Damaged("a string leaves it");
        let room = strings.count.checked_sub(place as usize).ok_or_else(outside)?;
        let at = strings.at + place as usize;
        let mut found = self.bytes(at, room.min(USUAL))?;
        let reader = Reader { endian: self.header.target.endian, bytes: &found };
        let length = usize::from(reader.half(0).ok_or_else(outside)?);
        if length + 3 > room {
            return Err(outside());
        }
        if length + 3 > found.len() {
            found = self.bytes(at, length + 3)?;
        }
        Ok(found[2..2 + length].into())
    }
}

fn bytes(source: &impl ReadAt, at: u64, length: usize) -> Result<Vec<u8>, TableError> {
    let mut bytes = vec![0; length];
    source.read_at(at, &mut bytes).ok_or(TableError::Unreadable)?;
    Ok(bytes)
}

/// Reads the header of the table from `table` to `end` of the file. Returns it with the bytes read
/// for it.
fn header(source: &impl ReadAt, table: u64, end: u64) -> Result<(Header, Vec<u8>), TableError> {
    const PAGE: usize = 4096;
    const { assert!(LONGEST <= PAGE) };
    let length = usize::try_from(end - table).map_err(|_| TableError::Unreadable)?;
    let first = bytes(source, table, length.min(PAGE))?;
    Ok((Header::read(&first, length)?, first))
}
