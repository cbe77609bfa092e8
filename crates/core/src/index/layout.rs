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
pub(super) const OBJECT: usize = 32;
pub(super) const EDGE: usize = 16;
pub(super) const CONDITION: usize = 64;
pub(super) const DIRECTORY: usize = 32;
pub(super) const SEARCH_DIR: usize = 32;
pub(super) const LOADER: usize = 40;
pub(super) const PROGRAM: usize = 40;
pub(super) const BOUND_PROGRAM: usize = 40;
pub(super) const BOUND_OBJECT: usize = 64;
pub(super) const MEMBER: usize = 16;
pub(super) const BLOCK: usize = 16;
pub(super) const PATH_ROOT: usize = 64;
pub(super) const PATH_PACKAGE: usize = 80;
pub(super) const PATH_LINK: usize = 32;
pub(super) const TRAILER: usize = 256;
/// Bytes before the trailer: a zero and the table's length again.
pub(super) const BACKWARD: usize = 8;

/// The kinds of sections.
pub(super) mod kind {
    pub(in super::super) const OBJECTS: u32 = 1;
    pub(in super::super) const BUCKETS: u32 = 2;
    pub(in super::super) const EDGES: u32 = 3;
    pub(in super::super) const CONDITIONS: u32 = 4;
    pub(in super::super) const POOL: u32 = 5;
    pub(in super::super) const DIRECTORIES: u32 = 6;
    pub(in super::super) const STRINGS: u32 = 7;
    pub(in super::super) const ORIGINS: u32 = 8;
    pub(in super::super) const LOADER: u32 = 9;
    pub(in super::super) const PROGRAMS: u32 = 10;
    pub(in super::super) const PROGRAM_BUCKETS: u32 = 11;
    pub(in super::super) const SEARCH_DIRS: u32 = 13;
    pub(in super::super) const BOUND_PROGRAMS: u32 = 14;
    pub(in super::super) const BOUND_OBJECTS: u32 = 15;
    pub(in super::super) const MEMBERS: u32 = 16;
    pub(in super::super) const BLOCKS: u32 = 17;
    pub(in super::super) const BLOCK_WORDS: u32 = 18;
    pub(in super::super) const PATH_ROOTS: u32 = 24;
    pub(in super::super) const PATH_PACKAGES: u32 = 25;
    pub(in super::super) const PATH_LINKS: u32 = 26;
    pub(in super::super) const PATH_SLOTS: u32 = 27;
}

pub(super) const BOUND_PROGRAM_UNDEFINED_FUNCTION: u32 = 1;
pub(super) const BOUND_OBJECT_ROOTED: u32 = 1;
pub(super) const PROGRAM_NO_START: u32 = 1;
pub(super) const LOADER_HAS_CACHE: u32 = 1;
pub(super) const LOADER_HAS_PLATFORM: u32 = 2;

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
