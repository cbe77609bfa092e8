//! The header of a table and its section directory, of this version and of those before.
//!
//! Version 1 had a fixed place for each of its sections. The bindings of versions 2 and 3 are left out:
//! they had another encoding, or rest on other conditions. All versions give the same [`Section`]s, so
//! that the readers of records need not know the version.

use super::layout::{self, Reader, kind};
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
}

/// A header whose check fits and whose sections are all in the table.
#[derive(Clone, Debug)]
pub(super) struct Header {
    pub(super) version: u32,
    pub(super) target: Target,
    pub(super) length: usize,
    pub(super) roots: u32,
    pub(super) settings: u32,
    /// Zero in an index of an earlier release.
    pub(super) filters: u32,
    /// The largest need of a program. Version 1 does not have it.
    pub(super) static_tls: Option<u32>,
    /// Offset of the checksum of the table, and the number of bytes there that count as zero in it.
    pub(super) checksum: (usize, usize),
    sections: Vec<Section>,
}

/// Sections of version 1: kind, place of offset and count in the header, size of a record.
const SECTIONS_OF_1: [(u32, usize, usize); 8] = [
    (kind::OBJECTS, 24, layout::OBJECT),
    (kind::BUCKETS, 32, 4),
    (kind::EDGES, 40, layout::EDGE),
    (kind::CONDITIONS, 48, layout::CONDITION),
    (kind::POOL, 56, 4),
    (kind::DIRECTORIES, 64, layout::DIRECTORY),
    (kind::STRINGS, 72, 1),
    (kind::ORIGINS, 84, 4),
];
const HEADER_OF_1: usize = 120;

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
        if !(1..=layout::VERSION).contains(&version) {
            return Err(TableError::OtherVersion(version));
        }
        let target = layout::target_of(word(16)?)
            .filter(|target| target.endian == endian)
            .ok_or(TableError::Damaged("it names no machine"))?;
        if word(20)? as usize != length || length < layout::HEADER + layout::TRAILER {
            return Err(TableError::WrongLength);
        }
        let header = match version {
            1 => Self::first(reader, target, length)?,
            _ => Self::with_directory(reader, version, target, length)?,
        };
        let outside = |section: &Section| {
            let bytes = section.count.checked_mul(section.size);
            bytes.and_then(|bytes| bytes.checked_add(section.at)).is_none_or(|end| end > length)
        };
        if header.sections.iter().any(outside) {
            return Err(TableError::Damaged("a section leaves it"));
        }
        Ok(header)
    }

    fn first(reader: Reader<'_>, target: Target, length: usize) -> Result<Self, TableError> {
        let word = |at| reader.word(at).ok_or(TableError::WrongLength);
        let check = HEADER_OF_1 - 4;
        let before = reader.bytes.get(..check).ok_or(TableError::WrongLength)?;
        if word(check)? != hash::low(0, before) {
            return Err(TableError::Damaged("its header"));
        }
        let section = |(kind, place, size)| {
            Ok(Section { kind, at: word(place)? as usize, count: word(place + 4)? as usize, size })
        };
        Ok(Self {
            version: 1,
            target,
            length,
            roots: word(80)?,
            settings: word(92)?,
            filters: 0,
            static_tls: None,
            checksum: (104, 16),
            sections: SECTIONS_OF_1.into_iter().map(section).collect::<Result<_, _>>()?,
        })
    }

    fn with_directory(
        reader: Reader<'_>,
        version: u32,
        target: Target,
        length: usize,
    ) -> Result<Self, TableError> {
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
            Ok(Section {
                kind: word(at)?,
                at: word(at + 4)? as usize,
                count: word(at + 8)? as usize,
                size: word(at + 12)? as usize,
            })
        };
        let mut sections = (0..count).map(section).collect::<Result<Vec<_>, _>>()?;
        if version < layout::VERSION {
            sections.retain(|section| !kind::OF_BINDINGS.contains(&section.kind));
        }
        Ok(Self {
            version,
            target,
            length,
            roots: word(layout::ROOTS)?,
            settings: word(layout::SETTINGS)?,
            filters: word(layout::FILTERS)?,
            static_tls: Some(word(layout::STATIC_TLS)?),
            checksum: (layout::HEADER_CHECKSUM, layout::HEADER - layout::HEADER_CHECKSUM),
            sections,
        })
    }

    /// Returns false for version 1, which had no section directory and other records.
    pub(super) fn has_directory(&self) -> bool {
        self.version > 1
    }

    /// Returns true if the table has bindings.
    pub(super) fn has_bindings(&self) -> bool {
        let is_of_bindings = |section: &Section| section.kind == kind::BOUND_PROGRAMS;
        self.sections.iter().any(|section| is_of_bindings(section) && section.count > 0)
    }

    /// Returns true if the table has paths.
    pub(super) fn has_paths(&self) -> bool {
        self.sections.iter().any(|section| section.kind == kind::PATH_ROOTS && section.count > 0)
    }

    /// Returns the section of a kind. A missing section is returned as an empty one.
    pub(super) fn section(&self, kind: u32, size: usize) -> Result<Section, TableError> {
        match self.sections.iter().find(|section| section.kind == kind) {
            None => Ok(Section { kind, at: 0, count: 0, size }),
            Some(section) if section.size == size => Ok(*section),
            Some(_) => Err(TableError::Damaged("a section has records of another size")),
        }
    }
}
