//! Reads the bytes of an object by their address in memory, for symbol tables, relocations and the
//! other structures that `PT_DYNAMIC` names.

use std::ops::Range;

use object::elf::{DynamicTag, PT_DYNAMIC, PT_NOTE};
use object::read::ReadRef;

use super::memory::Memory;
use super::notes::{Note, notes};
use super::segment::{Segment, segments};
use super::source::Source;
use super::{Class, ElfError, Endian, Ident};

/// The limit on the entries of one `PT_DYNAMIC`. A real one has about thirty.
const MAX_ENTRIES: u64 = 1 << 16;

/// Bytes of one table at most. The largest real ones, of browsers, have a tenth of it.
const MAX_BYTES: u64 = 256 << 20;

/// The memory image of an object before relocation, read from ranges of its file.
pub struct Image<'data, R> {
    ident: Ident,
    pub(super) source: Source<'data, R>,
    pub(super) segments: Vec<Segment>,
    pub(super) memory: Memory,
    pub(super) dynamic: Option<Segment>,
}

impl<'data, R: ReadRef<'data>> Image<'data, R> {
    /// Reads the ELF header and the program headers.
    ///
    /// # Errors
    /// Returns [`ElfError`] if these are not an ELF header and all program headers.
    pub fn new(data: R) -> Result<Self, ElfError> {
        let (source, ident) = Source::open(data)?;
        Self::of(source, ident)
    }

    /// Reads the program headers.
    pub(super) fn of(source: Source<'data, R>, ident: Ident) -> Result<Self, ElfError> {
        let segments = segments(&source, &ident)?;
        let memory = Memory::new(&segments, ident.class);
        // The last one with bytes in the file. `_dl_map_object_from_fd` (glibc 2.36 `elf/dl-load.c`)
        // skips an empty one, which files of separate debug information have.
        let is_dynamic = |it: &&Segment| it.kind == PT_DYNAMIC && it.filesz > 0;
        let dynamic = segments.iter().rfind(is_dynamic).copied();
        Ok(Self { ident, source, segments, memory, dynamic })
    }

    /// Returns the identification and machine fields.
    #[must_use]
    pub fn ident(&self) -> Ident {
        self.ident
    }

    /// Returns the number reader for the object's class and byte order.
    #[must_use]
    pub fn words(&self) -> Words {
        Words { class: self.ident.class, endian: self.ident.endian }
    }

    /// Returns the address and size of `PT_DYNAMIC`.
    #[must_use]
    pub fn dynamic(&self) -> Option<(u64, u64)> {
        self.dynamic.map(|segment| (segment.vaddr, segment.filesz))
    }

    /// Reads the entries of `PT_DYNAMIC` up to `DT_NULL`, as tag and value.
    ///
    /// # Errors
    /// Returns [`ElfError::Malformed`] if an entry is outside the file, or if there are more than
    /// 65,536.
    pub(crate) fn dynamic_entries(&self) -> Result<Vec<(DynamicTag, u64)>, ElfError> {
        let Some(segment) = &self.dynamic else { return Ok(Vec::new()) };
        // `object::ReadCache` keeps all bytes read, so a hostile size must not be followed.
        self.entries(segment, |index| match index {
            MAX_ENTRIES => Err(ElfError::Malformed("its dynamic section has too many entries")),
            _ => Ok(()),
        })
    }

    /// Reads the entries up to `DT_NULL`, as for a loader, or up to the end of the bytes. `check` gets
    /// the index of each before it is read.
    pub(super) fn entries(
        &self,
        segment: &Segment,
        check: impl Fn(u64) -> Result<(), ElfError>,
    ) -> Result<Vec<(DynamicTag, u64)>, ElfError> {
        let (place, words) = (self.memory.dynamic(segment), self.words());
        let size = 2 * words.size() as u64;
        let mut entries = Vec::new();
        for index in 0..place.in_file / size {
            check(index)?;
            let offset = place.offset.checked_add(index * size);
            let entry = offset.and_then(|offset| self.source.bytes(offset, size));
            let entry = entry
                .and_then(|entry| words.address(entry, 0).zip(words.address(entry, words.size())));
            let (tag, value) =
                entry.ok_or(ElfError::Malformed("its dynamic section is outside the file"))?;
            if tag == 0 {
                break;
            }
            entries.push((DynamicTag(tag.cast_signed()), value));
        }
        Ok(entries)
    }

    /// Returns the number of bytes in the file from `address` to the end of its segment.
    #[must_use]
    pub(crate) fn bytes_after(&self, address: u64) -> u64 {
        self.memory.file_range(address).map_or(0, |(_, in_file)| in_file)
    }

    /// Reads `size` bytes at `address`. Returns `None` unless they are all in one segment and in the
    /// file, and for more than 256 MiB.
    #[must_use]
    pub fn bytes(&self, address: u64, size: u64) -> Option<&'data [u8]> {
        let (offset, in_file) = self.memory.file_range(address)?;
        // The size comes from the file. It is checked before any byte is read.
        if size > in_file.min(MAX_BYTES) {
            return None;
        }
        self.source.bytes(offset, size)
    }

    /// Returns the bytes in memory that a loader reads from the file for each writable `PT_LOAD`, their offset
    /// in the file, and the number of zeros that follow.
    pub fn writable(&self) -> impl Iterator<Item = (Range<u64>, u64, u64)> + '_ {
        let loads = self.memory.loads().iter().filter(|load| load.is_writable);
        loads.map(|it| {
            let of_file = it.vaddr..it.vaddr.saturating_add(it.filesz);
            (of_file, it.offset, it.memsz.saturating_sub(it.filesz))
        })
    }

    /// Returns true if `PT_DYNAMIC` is mapped writable.
    pub(crate) fn is_dynamic_writable(&self) -> bool {
        self.dynamic.is_some_and(|segment| segment.is_writable)
    }

    /// Returns the first build ID with its address.
    pub(crate) fn build_id(&self) -> Option<(u64, &'data [u8])> {
        let of = |segment: &Segment| {
            let bytes = self.source.bytes(segment.offset, segment.filesz)?;
            let mut notes = notes(bytes, segment.align, self.ident.endian);
            let id = notes.find(Note::is_build_id)?.descriptor;
            // The descriptor is a part of the segment's bytes.
            let within = (id.as_ptr() as usize).checked_sub(bytes.as_ptr() as usize)?;
            Some((segment.vaddr.checked_add(within as u64)?, id))
        };
        self.segments.iter().filter(|segment| segment.kind == PT_NOTE).find_map(of)
    }

    /// Returns the program headers.
    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Returns the `PT_LOAD`s in the order of the program headers.
    pub(crate) fn loads(&self) -> &[Segment] {
        self.memory.loads()
    }

    /// Reads bytes of a segment.
    pub(crate) fn bytes_of(&self, load: &Segment, from: u64, size: u64) -> Option<&'data [u8]> {
        self.source.bytes(load.offset.checked_add(from)?, size)
    }

    /// Returns the address of each `PT_LOAD` and its number of bytes in the file.
    pub fn loaded(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.memory.loads().iter().map(|load| (load.vaddr, load.filesz))
    }
}

/// Reads numbers of a class and byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    /// `EI_CLASS`.
    pub class: Class,
    /// `EI_DATA`.
    pub endian: Endian,
}

impl Words {
    /// Returns the size of an address in bytes.
    #[must_use]
    pub fn size(self) -> usize {
        match self.class {
            Class::Elf32 => 4,
            Class::Elf64 => 8,
        }
    }

    /// Reads the 32-bit number at `at`.
    #[must_use]
    pub fn word(self, bytes: &[u8], at: usize) -> Option<u32> {
        self.endian.u32(bytes, at)
    }

    /// Reads the address-sized number at `at`.
    #[must_use]
    pub fn address(self, bytes: &[u8], at: usize) -> Option<u64> {
        match self.class {
            Class::Elf32 => self.word(bytes, at).map(u64::from),
            Class::Elf64 => self.endian.u64(bytes, at),
        }
    }
}
