//! Numbers and table entries of one ELF file, by its class and byte order (gABI, "ELF Header",
//! "Program Header", "Sections").

use becalm_core::elf::{Class, Endian};
use object::elf::{
    DynamicTag, ProgramFlags, ProgramType, SHT_NOBITS, SHT_NULL, SectionFlags, SectionType,
};
use object::{Endian as _, Endianness};

use crate::RewriteError;

/// Class and byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) class: Class,
    pub(crate) endian: Endian,
}

/// One program header, widened to 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) kind: ProgramType,
    pub(crate) flags: ProgramFlags,
    pub(crate) offset: u64,
    pub(crate) vaddr: u64,
    pub(crate) paddr: u64,
    pub(crate) filesz: u64,
    pub(crate) memsz: u64,
    pub(crate) align: u64,
}

/// One section header, widened to 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) name: u32,
    pub(crate) kind: SectionType,
    pub(crate) flags: SectionFlags,
    pub(crate) addr: u64,
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) link: u32,
    pub(crate) info: u32,
    pub(crate) align: u64,
    pub(crate) entsize: u64,
}

/// One dynamic entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dyn {
    pub(crate) tag: DynamicTag,
    pub(crate) value: u64,
}

/// A range of the appended bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) offset: u64,
    pub(crate) vaddr: u64,
    pub(crate) size: u64,
}

impl Segment {
    /// Makes the header of a range that is mapped as it is in the file.
    pub(crate) fn of(kind: ProgramType, flags: ProgramFlags, place: Place, align: u64) -> Self {
        let Place { offset, vaddr, size } = place;
        let (paddr, filesz, memsz) = (vaddr, size, size);
        Self { kind, flags, offset, vaddr, paddr, filesz, memsz, align }
    }

    /// Returns the first file offset after the segment.
    pub(crate) fn file_end(&self) -> u64 {
        self.offset.saturating_add(self.filesz)
    }

    /// Returns the first address after the segment.
    pub(crate) fn memory_end(&self) -> u64 {
        self.vaddr.saturating_add(self.memsz)
    }
}

impl Section {
    /// Returns the first file offset after the section, or 0 if it has no bytes in the file.
    pub(crate) fn file_end(&self) -> u64 {
        match self.kind {
            // The offset of such a section names no bytes of the file.
            SHT_NOBITS | SHT_NULL => 0,
            _ => self.offset.saturating_add(self.size),
        }
    }
}

impl Format {
    /// Returns true for `ELFCLASS64`.
    pub(crate) fn is_64(self) -> bool {
        self.class == Class::Elf64
    }

    /// Returns the size of the ELF header.
    pub(crate) fn header_size(self) -> u64 {
        if self.is_64() { 64 } else { 52 }
    }

    /// Returns the size of a program header.
    pub(crate) fn segment_size(self) -> u64 {
        if self.is_64() { 56 } else { 32 }
    }

    /// Returns the size of a section header.
    pub(crate) fn section_size(self) -> u64 {
        if self.is_64() { 64 } else { 40 }
    }

    /// Returns the size of a dynamic entry.
    pub(crate) fn dyn_size(self) -> u64 {
        if self.is_64() { 16 } else { 8 }
    }

    /// Returns the natural alignment of the tables.
    pub(crate) fn word_align(self) -> u64 {
        if self.is_64() { 8 } else { 4 }
    }

    /// Reads an address, offset or size.
    pub(crate) fn read_word(self, bytes: &[u8], at: usize) -> Option<u64> {
        match self.class {
            Class::Elf32 => self.endian.u32(bytes, at).map(u64::from),
            Class::Elf64 => self.endian.u64(bytes, at),
        }
    }

    /// Writes a 16-bit number.
    pub(crate) fn u16(self, value: u16) -> [u8; 2] {
        Endianness::from(self.endian).write_u16(value)
    }

    /// Writes a 32-bit number.
    pub(crate) fn u32(self, value: u32) -> [u8; 4] {
        Endianness::from(self.endian).write_u32(value)
    }

    /// Writes an address, offset or size.
    ///
    /// # Errors
    /// Returns [`RewriteError::NoAddressSpace`] if the value exceeds 32 bits in a 32-bit file.
    pub(crate) fn word(self, value: u64) -> Result<Vec<u8>, RewriteError> {
        if self.is_64() {
            return Ok(Endianness::from(self.endian).write_u64(value).to_vec());
        }
        let value = u32::try_from(value).map_err(|_| RewriteError::NoAddressSpace)?;
        Ok(self.u32(value).to_vec())
    }

    /// Writes a program header.
    pub(crate) fn segment(self, segment: &Segment) -> Result<Vec<u8>, RewriteError> {
        let Segment { kind, flags, offset, vaddr, paddr, filesz, memsz, align } = *segment;
        let mut bytes = self.u32(kind.0).to_vec();
        // `p_flags` is the second field of `Elf64_Phdr`, and the last but one of `Elf32_Phdr`.
        if self.is_64() {
            bytes.extend(self.u32(flags.0));
        }
        for value in [offset, vaddr, paddr, filesz, memsz] {
            bytes.extend(self.word(value)?);
        }
        if !self.is_64() {
            bytes.extend(self.u32(flags.0));
        }
        bytes.extend(self.word(align)?);
        Ok(bytes)
    }

    /// Writes a section header.
    pub(crate) fn section(self, section: &Section) -> Result<Vec<u8>, RewriteError> {
        let mut bytes = self.u32(section.name).to_vec();
        bytes.extend(self.u32(section.kind.0));
        for value in [section.flags.0, section.addr, section.offset, section.size] {
            bytes.extend(self.word(value)?);
        }
        bytes.extend(self.u32(section.link));
        bytes.extend(self.u32(section.info));
        bytes.extend(self.word(section.align)?);
        bytes.extend(self.word(section.entsize)?);
        Ok(bytes)
    }

    /// Writes a dynamic entry.
    pub(crate) fn entry(self, entry: Dyn) -> Result<Vec<u8>, RewriteError> {
        // `d_tag` is signed: a negative tag keeps its low 32 bits.
        let tag = entry.tag.0 as u64;
        let mut bytes = self.word(if self.is_64() { tag } else { tag & 0xffff_ffff })?;
        bytes.extend(self.word(entry.value)?);
        Ok(bytes)
    }
}
