//! Reads the bytes of an object by their address in memory, for symbol tables, relocations and the
//! other structures that `PT_DYNAMIC` names.

use std::ops::Range;

use object::elf::{self, DynamicFlags, DynamicTag, PT_DYNAMIC, PT_LOAD, PT_NOTE};
use object::read::ReadRef;

use super::notes::{Note, notes};
use super::segment::{Segment, segments};
use super::source::Source;
use super::{Class, ElfError, Ident};

/// Bytes of one table at most. The largest real ones, of browsers, have a tenth of it.
const MAX_BYTES: u64 = 256 << 20;

/// The memory image of an object before relocation, read from ranges of its file.
///
/// A loader maps whole pages and thus bytes before and after a segment. The image has only the
/// bytes of the segments.
pub struct Image<'data, R> {
    /// The identification and machine fields.
    pub ident: Ident,
    pub(super) source: Source<'data, R>,
    /// The program headers.
    pub(crate) segments: Vec<Segment>,
    /// The `PT_LOAD`s in the order of the program headers.
    pub(crate) loads: Vec<Segment>,
    /// `PT_DYNAMIC`.
    pub(crate) dynamic: Option<Segment>,
}

/// The entries of `PT_DYNAMIC`: tags and values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tags(pub(crate) Vec<(DynamicTag, u64)>);

impl Tags {
    /// Returns the value of a tag. If it occurs twice, the last entry counts: `l_info` has one place for
    /// each (glibc `elf_get_dynamic_info`).
    pub(crate) fn get(&self, tag: DynamicTag) -> Option<u64> {
        self.0.iter().rfind(|entry| entry.0 == tag).map(|entry| entry.1)
    }

    /// Returns true if there is an entry, or the flag that replaces it.
    pub(crate) fn has(&self, tag: DynamicTag, flag: DynamicFlags) -> bool {
        self.get(tag).is_some() || self.get(elf::DT_FLAGS).unwrap_or(0) & flag.0 != 0
    }

    /// `DT_BIND_NOW`, `DF_BIND_NOW` or `DF_1_NOW`.
    pub(crate) fn bind_now(&self) -> bool {
        // `elf_get_dynamic_info` sets `l_info[DT_BIND_NOW]` for `DF_1_NOW` as well.
        let flags_1 = self.get(elf::DT_FLAGS_1).unwrap_or(0);
        self.has(elf::DT_BIND_NOW, elf::DF_BIND_NOW) || flags_1 & elf::DF_1_NOW.0 != 0
    }
}

/// The position of an address in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Offset in the file.
    pub(super) offset: u64,
    /// The number of bytes from there on that are in the segment and in the file.
    pub(super) in_file: u64,
    /// True if zeros follow them (`p_memsz` above `p_filesz`).
    pub(super) zeros_after: bool,
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
        let loads = segments.iter().filter(|segment| segment.kind == PT_LOAD).copied().collect();
        // The last one with bytes in the file. `_dl_map_object_from_fd` (glibc 2.36 `elf/dl-load.c`)
        // skips an empty one, which files of separate debug information have.
        let is_dynamic = |it: &&Segment| it.kind == PT_DYNAMIC && it.filesz > 0;
        let dynamic = segments.iter().rfind(is_dynamic).copied();
        Ok(Self { ident, source, segments, loads, dynamic })
    }

    /// Reads the entries of `PT_DYNAMIC` up to `DT_NULL`, as for a loader, or up to the end of the bytes.
    ///
    /// # Errors
    /// Returns [`ElfError::Malformed`] if an entry is outside the file, or if the entries exceed the file's
    /// budget.
    pub(crate) fn dynamic_entries(&self) -> Result<Tags, ElfError> {
        let mut entries = Vec::new();
        let Some(Segment { vaddr, offset, filesz, .. }) = self.dynamic else {
            return Ok(Tags(entries));
        };
        // A loader reads at `p_vaddr` (`l->l_ld` is an address). A tool that edits files may move the
        // bytes and leave `p_offset`, which counts only if no `PT_LOAD` covers the address.
        let place = self.locate(vaddr);
        let (start, in_file) = place.map_or((offset, filesz), |it| (it.offset, it.in_file));
        let word = self.ident.address_size();
        let size = 2 * word as u64;
        for index in 0..in_file / size {
            // A hostile file can have a table of gigabytes.
            self.source.spend(size)?;
            let at = start.checked_add(index * size);
            let bytes = at.and_then(|at| self.source.bytes(at, size)).unwrap_or_default();
            let entry = self.ident.address(bytes, 0).zip(self.ident.address(bytes, word));
            let (tag, value) =
                entry.ok_or(ElfError::Malformed("its dynamic section is outside the file"))?;
            if tag == 0 {
                break;
            }
            entries.push((DynamicTag(tag.cast_signed()), value));
        }
        Ok(Tags(entries))
    }

    /// Returns the number of bytes in the file from `address` to the end of its segment.
    pub(crate) fn bytes_after(&self, address: u64) -> u64 {
        self.locate(address).map_or(0, |place| place.in_file)
    }

    /// Reads `size` bytes at `address`. Returns `None` unless they are all in one segment and in the
    /// file, and for more than 256 MiB.
    #[must_use]
    pub fn bytes(&self, address: u64, size: u64) -> Option<&'data [u8]> {
        let Place { offset, in_file, .. } = self.locate(address)?;
        // The size comes from the file. It is checked before any byte is read.
        if size > in_file.min(MAX_BYTES) {
            return None;
        }
        self.source.bytes(offset, size)
    }

    /// Finds the position of `address`.
    pub(super) fn locate(&self, address: u64) -> Option<Place> {
        // `_dl_map_segments` maps each segment over those before it: the last one wins.
        let mask = if self.ident.class == Class::Elf32 { u32::MAX.into() } else { u64::MAX };
        self.loads.iter().rev().find_map(|load| {
            let into = (address & mask).checked_sub(load.vaddr)?;
            // `_dl_map_object_from_fd` maps `p_filesz` bytes, even if `p_memsz` is smaller.
            if into >= load.memsz.max(load.filesz) {
                return None;
            }
            Some(Place {
                offset: load.offset.checked_add(into.min(load.filesz))?,
                in_file: load.filesz.saturating_sub(into),
                zeros_after: load.memsz > load.filesz,
            })
        })
    }

    /// Returns the bytes in memory that a loader reads from the file for each writable `PT_LOAD`, their offset
    /// in the file, and the number of zeros that follow.
    pub fn writable(&self) -> impl Iterator<Item = (Range<u64>, u64, u64)> + '_ {
        let loads = self.loads.iter().filter(|load| load.is_writable);
        loads.map(|it| {
            let of_file = it.vaddr..it.vaddr.saturating_add(it.filesz);
            (of_file, it.offset, it.memsz.saturating_sub(it.filesz))
        })
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

    /// Reads bytes of a segment.
    pub(crate) fn bytes_of(&self, load: &Segment, from: u64, size: u64) -> Option<&'data [u8]> {
        self.source.bytes(load.offset.checked_add(from)?, size)
    }

    /// Returns the address of each `PT_LOAD` and its number of bytes in the file.
    pub fn loaded(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.loads.iter().map(|load| (load.vaddr, load.filesz))
    }
}

impl Ident {
    /// Returns the size of an address in bytes.
    #[must_use]
    pub fn address_size(&self) -> usize {
        if self.class == Class::Elf32 { 4 } else { 8 }
    }

    /// Reads the address-sized number at `at`; `None` if the bytes end before.
    #[must_use]
    pub fn address(&self, bytes: &[u8], at: usize) -> Option<u64> {
        match self.class {
            Class::Elf32 => self.endian.u32(bytes, at).map(u64::from),
            Class::Elf64 => self.endian.u64(bytes, at),
        }
    }
}
