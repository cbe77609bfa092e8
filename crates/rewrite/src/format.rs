//! Numbers and table entries of one ELF file, by its class and byte order (gABI, "ELF Header",
//! "Program Header", "Sections"). One list of the fields of an entry serves to read and to write it.

use becalm_core::elf::{Class, Endian};
use object::elf::{
    DynamicTag, EM_NONE, ProgramFlags, ProgramType, SHT_NOBITS, SHT_NULL, SectionFlags, SectionType,
};
use object::write::elf::Encoder;
use object::{Endian as _, Endianness};

use crate::{Result, RewriteError};

/// Class and byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) class: Class,
    pub(crate) endian: Endian,
}

/// A field of an entry.
pub(crate) enum Field<'a> {
    Byte(&'a mut u8),
    /// 16 bits.
    Half(&'a mut u16),
    /// 32 bits.
    Word(&'a mut u32),
    /// An address, offset or size.
    Long(&'a mut u64),
}

use Field::{Byte, Half, Long, Word};

/// An entry of a table, or the ELF header.
pub(crate) trait Entry: Clone + Default {
    /// Returns the fields in their order in a class.
    fn fields(&mut self, class: Class) -> Vec<Field<'_>>;
}

/// The ELF header, widened to 64 bits, with the names of the gABI.
#[derive(Clone, Debug, Default)]
pub(crate) struct Header {
    pub(crate) ident: [u8; 16],
    pub(crate) kind: u16,
    pub(crate) machine: u16,
    version: u32,
    entry: u64,
    pub(crate) phoff: u64,
    pub(crate) shoff: u64,
    flags: u32,
    ehsize: u16,
    pub(crate) phentsize: u16,
    pub(crate) phnum: u16,
    pub(crate) shentsize: u16,
    pub(crate) shnum: u16,
    pub(crate) shstrndx: u16,
}

/// One program header, widened to 64 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    /// The index in the original; `None` for a new entry.
    pub(crate) from: Option<usize>,
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

impl Entry for Header {
    fn fields(&mut self, _: Class) -> Vec<Field<'_>> {
        let rest = [
            Half(&mut self.kind),
            Half(&mut self.machine),
            Word(&mut self.version),
            Long(&mut self.entry),
            Long(&mut self.phoff),
            Long(&mut self.shoff),
            Word(&mut self.flags),
            Half(&mut self.ehsize),
            Half(&mut self.phentsize),
            Half(&mut self.phnum),
            Half(&mut self.shentsize),
            Half(&mut self.shnum),
            Half(&mut self.shstrndx),
        ];
        self.ident.iter_mut().map(Byte).chain(rest).collect()
    }
}

impl Entry for Segment {
    fn fields(&mut self, class: Class) -> Vec<Field<'_>> {
        let Self { kind, flags, offset, vaddr, paddr, filesz, memsz, align } = self;
        let mut fields = vec![Word(&mut kind.0)];
        fields.extend([offset, vaddr, paddr, filesz, memsz, align].map(Long));
        // The second field of `Elf64_Phdr`, and the last but one of `Elf32_Phdr`.
        let at = if class == Class::Elf64 { 1 } else { 6 };
        fields.insert(at, Word(&mut flags.0));
        fields
    }
}

impl Entry for Section {
    fn fields(&mut self, _: Class) -> Vec<Field<'_>> {
        let Self { name, kind, flags, addr, offset, size, link, info, align, entsize } = self;
        let mut fields = vec![Word(name), Word(&mut kind.0)];
        fields.extend([&mut flags.0, addr, offset, size].map(Long));
        fields.extend([link, info].map(Word));
        fields.extend([align, entsize].map(Long));
        fields
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

    /// Returns the sizes of the tables' entries and the writer of dynamic entries.
    pub(crate) fn encoder(self) -> Encoder<Endianness> {
        Encoder::new(self.endian.into(), self.is_64(), EM_NONE)
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
    pub(crate) fn word(self, value: u64) -> Result<Vec<u8>> {
        if self.is_64() {
            return Ok(Endianness::from(self.endian).write_u64(value).to_vec());
        }
        let value = u32::try_from(value).map_err(|_| RewriteError::NoAddressSpace)?;
        Ok(self.u32(value).to_vec())
    }

    /// Reads an entry; `None` if the bytes end before.
    pub(crate) fn read<E: Entry>(self, mut bytes: &[u8]) -> Option<E> {
        let mut entry = E::default();
        let mut take = |size| {
            let (head, rest) = bytes.split_at_checked(size)?;
            bytes = rest;
            Some(head)
        };
        for field in entry.fields(self.class) {
            match field {
                Byte(value) => *value = take(1)?[0],
                Half(value) => *value = self.endian.u16(take(2)?, 0)?,
                Word(value) => *value = self.endian.u32(take(4)?, 0)?,
                Long(value) => {
                    *value = self.read_word(take(self.encoder().address_size() as usize)?, 0)?
                }
            }
        }
        Some(entry)
    }

    /// Writes an entry.
    ///
    /// # Errors
    /// Returns [`RewriteError::NoAddressSpace`] if a value exceeds 32 bits in a 32-bit file.
    pub(crate) fn write<E: Entry>(self, entry: &E) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for field in entry.clone().fields(self.class) {
            match field {
                Byte(value) => bytes.push(*value),
                Half(value) => bytes.extend(self.u16(*value)),
                Word(value) => bytes.extend(self.u32(*value)),
                Long(value) => bytes.extend(self.word(*value)?),
            }
        }
        Ok(bytes)
    }

    /// Writes the entries of a table, with the errors of [`Self::write`].
    pub(crate) fn table<E: Entry>(self, entries: &[E]) -> Result<Vec<u8>> {
        let bytes: Result<Vec<Vec<u8>>, _> =
            entries.iter().map(|entry| self.write(entry)).collect();
        Ok(bytes?.concat())
    }

    /// Reads the dynamic entry with the index `at`.
    pub(crate) fn dynamic(self, bytes: &[u8], at: usize) -> Option<Dyn> {
        let tag = self.read_word(bytes, 0)?;
        // `d_tag` is signed.
        let tag = if self.is_64() { tag as i64 } else { i64::from(tag as i32) };
        let value = self.read_word(bytes, self.encoder().address_size() as usize)?;
        Some(Dyn { tag: DynamicTag(tag), value, from: Some(at) })
    }
}
