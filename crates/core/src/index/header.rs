//! The header of a table and its section directory.

use super::layout::{self, Kind, Reader};
use super::{TableError, Target, hash};
use crate::elf::Endian;

/// A section: the offset of its first record, and the count and size of its records.
#[derive(Clone, Copy, Debug)]
pub(super) struct Section {
    pub(super) kind: u32,
    pub(super) at: usize,
    pub(super) count: usize,
    pub(super) size: usize,
}

impl Section {
    /// Offset of each record.
    pub(super) fn records(self) -> impl Iterator<Item = usize> {
        (0..self.count).map(move |index| self.at + index * self.size)
    }

    /// Offset of one record.
    pub(super) fn record(self, index: usize) -> Option<usize> {
        (index < self.count).then(|| self.at + index * self.size)
    }

    /// Returns the `count` records from a position on, or `None` if the section has fewer.
    pub(super) fn part(self, first: usize, count: usize) -> Option<Self> {
        let is_there = first.checked_add(count).is_some_and(|end| end <= self.count);
        is_there.then(|| Self { at: self.at + first * self.size, count, ..self })
    }
}

/// A header whose check fits and whose sections are all in the table.
#[derive(Clone, Debug)]
pub(super) struct Header {
    pub(super) target: Target,
    pub(super) length: usize,
    pub(super) roots: u32,
    pub(super) settings: u32,
    pub(super) filters: u32,
    pub(super) flags: u32,
    /// The largest need of a program.
    pub(super) static_tls: u32,
    sections: Vec<Section>,
}

/// The longest header with its directory.
pub(super) const LONGEST: usize = layout::HEADER + layout::MAX_SECTIONS * layout::SECTION;

impl Header {
    /// Reads the header of a table of `length` bytes. `bytes` has all of them, or at least the
    /// first [`LONGEST`].
    pub(super) fn read(bytes: &[u8], length: usize) -> Result<Self, TableError> {
        if !bytes.starts_with(layout::MAGIC) || bytes.len() < layout::HEADER {
            return Err(TableError::NotATable);
        }
        let endian = match (Reader { endian: Endian::Little, bytes }).word(8) {
            Some(layout::ORDER) => Endian::Little,
            Some(order) if order.swap_bytes() == layout::ORDER => Endian::Big,
            _ => return Err(TableError::NotATable),
        };
        let reader = Reader { endian, bytes };
        let word = |at| reader.word(at).ok_or(TableError::WrongLength);
        let version = word(12)?;
        if version != layout::VERSION {
            return Err(TableError::OtherVersion(version));
        }
        let target = layout::target_of(word(16)?)
            .filter(|target| target.endian == endian)
            .ok_or(TableError::Damaged("it names no machine"))?;
        if word(20)? as usize != length || length < layout::HEADER + layout::TRAILER {
            return Err(TableError::WrongLength);
        }
        Ok(Self {
            target,
            length,
            roots: word(layout::ROOTS)?,
            settings: word(layout::SETTINGS)?,
            filters: word(layout::FILTERS)?,
            flags: word(layout::FLAGS)?,
            static_tls: word(layout::STATIC_TLS)?,
            sections: Self::directory(reader, length)?,
        })
    }

    /// Reads the section directory, and checks that the sections are in the table.
    fn directory(reader: Reader<'_>, length: usize) -> Result<Vec<Section>, TableError> {
        let word = |at| reader.word(at).ok_or(TableError::WrongLength);
        let count = word(layout::SECTIONS)? as usize;
        // The count is not checked yet. The bound keeps the product small.
        let directory = layout::HEADER..layout::HEADER + count.min(1 << 16) * layout::SECTION;
        let damaged = TableError::Damaged("its header");
        let entries = reader.bytes.get(directory).filter(|_| count <= layout::MAX_SECTIONS);
        let entries = entries.ok_or(damaged.clone())?;
        let check = hash::low(hash::bytes(0, entries), &reader.bytes[..layout::HEADER_CHECK]);
        if word(layout::HEADER_CHECK)? != check {
            return Err(damaged);
        }
        let section = |index: usize| {
            let at = layout::HEADER + index * layout::SECTION;
            let kind = word(at)?;
            let [at, count, size] = [word(at + 4)?, word(at + 8)?, word(at + 12)?];
            let [at, count, size] = [at, count, size].map(|number| number as usize);
            let end = count.checked_mul(size).and_then(|bytes| bytes.checked_add(at));
            let is_inside = end.is_some_and(|end| end <= length);
            let section = is_inside.then_some(Section { kind, at, count, size });
            section.ok_or(TableError::Damaged("a section leaves it"))
        };
        (0..count).map(section).collect()
    }

    /// Returns true if the table has a record of a kind.
    pub(super) fn has(&self, kind: Kind) -> bool {
        self.sections.iter().any(|section| section.kind == kind.number && section.count > 0)
    }

    /// Returns the section of a kind. A missing section is returned as an empty one.
    pub(super) fn section(&self, kind: Kind) -> Result<Section, TableError> {
        let Kind { number, size } = kind;
        match self.sections.iter().find(|section| section.kind == number) {
            None => Ok(Section { kind: number, at: 0, count: 0, size }),
            Some(section) if section.size == size => Ok(*section),
            Some(_) => Err(TableError::Damaged("a section has records of another size")),
        }
    }
}
