//! Sizes and bits of the format (`docs/index-format.md`).

use crate::elf::{Class, Endian};
pub(super) use crate::elf::{Reader, Writer};

use super::{EncodeError, Target, Time};

pub(super) const MAGIC: &[u8; 8] = b"becalmIX";
pub(super) const ORDER: u32 = 0x0102_0304;
/// The version that is written and read.
pub(super) const VERSION: u32 = 4;
pub(super) const HEADER: usize = 64;
pub(super) const SECTIONS: usize = 24;
pub(super) const ROOTS: usize = 28;
pub(super) const SETTINGS: usize = 32;
pub(super) const STATIC_TLS: usize = 36;
pub(super) const HEADER_CHECKSUM: usize = 40;
pub(super) const FILTERS: usize = 48;
pub(super) const FLAGS: usize = 52;
pub(super) const TOLD: u32 = 1;
pub(super) const HEADER_CHECK: usize = 60;
pub(super) const SECTION: usize = 16;
/// The limit on sections. A header with more is damaged.
pub(super) const MAX_SECTIONS: usize = 64;
pub(super) const TRAILER: usize = 256;
/// Bytes before the trailer: a zero and the table's length again.
pub(super) const BACKWARD: usize = 8;

/// A kind of section, and the size of its records.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    pub(super) number: u32,
    pub(super) size: usize,
}

/// The kinds of sections.
pub(super) mod kind {
    use super::Kind;

    pub(in super::super) const OBJECTS: Kind = Kind { number: 1, size: 32 };
    pub(in super::super) const BUCKETS: Kind = Kind { number: 2, size: 4 };
    pub(in super::super) const EDGES: Kind = Kind { number: 3, size: 16 };
    pub(in super::super) const CONDITIONS: Kind = Kind { number: 4, size: 64 };
    pub(in super::super) const POOL: Kind = Kind { number: 5, size: 4 };
    pub(in super::super) const DIRECTORIES: Kind = Kind { number: 6, size: 32 };
    pub(in super::super) const STRINGS: Kind = Kind { number: 7, size: 1 };
    pub(in super::super) const ORIGINS: Kind = Kind { number: 8, size: 4 };
    pub(in super::super) const PROGRAMS: Kind = Kind { number: 10, size: 40 };
    pub(in super::super) const PROGRAM_BUCKETS: Kind = Kind { number: 11, size: 4 };
    pub(in super::super) const SEARCH_DIRS: Kind = Kind { number: 13, size: 32 };
    pub(in super::super) const BOUND_PROGRAMS: Kind = Kind { number: 14, size: 40 };
    pub(in super::super) const BOUND_OBJECTS: Kind = Kind { number: 15, size: 64 };
    pub(in super::super) const MEMBERS: Kind = Kind { number: 16, size: 16 };
    pub(in super::super) const BLOCKS: Kind = Kind { number: 17, size: 16 };
    pub(in super::super) const BLOCK_WORDS: Kind = Kind { number: 18, size: 4 };
    pub(in super::super) const PATH_ROOTS: Kind = Kind { number: 24, size: 64 };
    pub(in super::super) const PATH_PACKAGES: Kind = Kind { number: 25, size: 80 };
    pub(in super::super) const PATH_LINKS: Kind = Kind { number: 26, size: 32 };
    pub(in super::super) const PATH_SLOTS: Kind = Kind { number: 27, size: 4 };
}

pub(super) const BOUND_PROGRAM_UNDEFINED_FUNCTION: u32 = 1;
pub(super) const BOUND_OBJECT_ROOTED: u32 = 1;
pub(super) const PROGRAM_NO_START: u32 = 1;

pub(super) const OBJECT_CANONICAL: u32 = 1;
pub(super) const OBJECT_CLOSED: u32 = 2;
pub(super) const OBJECT_PROGRAM: u32 = 8;
pub(super) const DIRECTORY_HAS_NAMES: u32 = 1;
pub(super) const SEARCH_DIR_LOOK: u32 = 1;
pub(super) const EDGE_SET: u32 = 0x00ff_ffff;
pub(super) const EDGE_BEFORE_LIBRARY_PATH: u32 = 0x0100_0000;
pub(super) const EDGE_LOOK: u32 = 0x0400_0000;
pub(super) const EDGE_OUTSIDE: u32 = 0x1000_0000;

pub(super) const CONDITION_DIRECTORY: u32 = 1;
pub(super) const CONDITION_ABSENT: u32 = 2;
pub(super) const CONDITION_FILE: u32 = 3;
pub(super) const CONDITION_LOADER: u32 = 4;
pub(super) const CONDITION_ABSENT_PACKAGE: u32 = 5;
pub(super) const CONDITION_IMAGE_DIRECTORY: u32 = 6;
pub(super) const CONDITION_IMAGE_FILE: u32 = 7;
pub(super) const CONDITION_STORE_DIRECTORY: u32 = 8;

/// Returns the machine word of the header.
pub(super) fn machine_word(target: Target) -> u32 {
    let Target { machine, class, endian } = target;
    u32::from(machine) | (class as u32) << 16 | (endian as u32) << 24
}

/// Returns the machine of a machine word, or `None` if the word is invalid.
pub(super) fn target_of(word: u32) -> Option<Target> {
    let [endian, class, ..] = word.to_be_bytes();
    let (class, endian) = (Class::of(class)?, Endian::of(endian)?);
    Some(Target { machine: word as u16, class, endian })
}

/// Returns a number of the format. The error names what is too large.
pub(super) fn narrow(number: usize, what: &'static str) -> Result<u32, EncodeError> {
    u32::try_from(number).map_err(|_| EncodeError::TooLarge(what))
}

impl Writer {
    /// Adds the times of a fingerprint: the seconds of both, then the nanoseconds.
    pub(super) fn times(&mut self, mtime: Time, ctime: Time) {
        self.long(mtime.sec.cast_unsigned());
        self.long(ctime.sec.cast_unsigned());
        self.words([mtime.nsec, ctime.nsec]);
    }

    /// Adds zeros up to the next multiple of eight.
    pub(super) fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
    }
}

/// Ends a record with its check.
pub(super) fn seal(records: &mut Writer, start: usize, seed: u64) {
    let check = super::hash::low(seed, &records.bytes[start..]);
    records.word(check);
}
