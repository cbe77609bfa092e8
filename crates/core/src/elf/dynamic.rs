//! Parses `PT_DYNAMIC` at its address in memory, as a loader does. The `PT_LOAD`s define the
//! memory.

use bstr::{BString, ByteSlice};
use object::Endianness;
use object::elf::{self, DynamicTag, PT_LOAD};
use object::read::ReadRef;
use object::read::elf::{Dyn, FileHeader};

use super::segment::Segment;
use super::source::Source;
use super::{Class, Dependency, DependencyKind, Dynamic, ElfError};

/// The cost of one string besides its bytes, taken from the file's budget. It limits a hostile file
/// to some hundred thousand dependencies.
const STRING_COST: u64 = 64;

/// The memory image of the `PT_LOAD`s, before relocation.
///
/// A loader maps whole pages and thus bytes before and after a segment. The image has only the
/// bytes of the segments.
pub(super) struct Memory {
    loads: Vec<Segment>,
    address_mask: u64,
}

/// The position of an address in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Offset in the file.
    offset: u64,
    /// The number of bytes from there on that are in the segment and in the file.
    in_file: u64,
    /// True if zeros follow them (`p_memsz` above `p_filesz`).
    zeros_after: bool,
}

impl Memory {
    pub(super) fn new(segments: &[Segment], class: Class) -> Self {
        let loads = segments.iter().filter(|segment| segment.kind == PT_LOAD).copied().collect();
        let address_mask = match class {
            Class::Elf32 => u64::from(u32::MAX),
            Class::Elf64 => u64::MAX,
        };
        Self { loads, address_mask }
    }

    /// Returns the place of the dynamic section. A loader reads at `p_vaddr` (`l->l_ld` is an address). A
    /// tool that edits files may move the bytes and leave `p_offset`, which counts only if no `PT_LOAD`
    /// covers the address.
    pub(super) fn dynamic(&self, segment: &Segment) -> Place {
        self.locate(segment.vaddr).unwrap_or(Place {
            offset: segment.offset,
            in_file: segment.filesz,
            zeros_after: false,
        })
    }

    /// Returns the segments in the order of the program headers.
    pub(super) fn loads(&self) -> &[Segment] {
        &self.loads
    }

    /// Returns the offset of `address` in the file, and the number of bytes from there to the end
    /// of the segment in the file.
    pub(super) fn file_range(&self, address: u64) -> Option<(u64, u64)> {
        let place = self.locate(address & self.address_mask)?;
        Some((place.offset, place.in_file))
    }

    /// Finds the position of `address`.
    fn locate(&self, address: u64) -> Option<Place> {
        // `_dl_map_segments` maps each segment over those before it: the last one wins.
        self.loads.iter().rev().find_map(|load| {
            let into = address.checked_sub(load.vaddr)?;
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
}

/// Parses the entries, then the strings that they name.
pub(super) fn read<'data, Elf, R>(
    source: &Source<'data, R>,
    endian: Endianness,
    memory: &Memory,
    segment: &Segment,
) -> Result<Dynamic, ElfError>
where
    Elf: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    // A hostile file can have a table of gigabytes.
    let spend = |_| source.spend(size_of::<Elf::Dyn>() as u64);
    let entries = entries::<Elf, R>(source, endian, memory.dynamic(segment), spend)?;
    // If a tag occurs twice, the last entry counts: `l_info` has one place for each.
    let value = |tag| entries.iter().rfind(|entry| entry.0 == tag).map(|entry| entry.1);
    // `DT_STRTAB` may follow the entries that name a string.
    let strings = Strings { source, memory, table: value(elf::DT_STRTAB) };
    let mut dynamic = Dynamic {
        flags: value(elf::DT_FLAGS).unwrap_or(0),
        flags_1: value(elf::DT_FLAGS_1).unwrap_or(0),
        has_debug: value(elf::DT_DEBUG).is_some(),
        ..Dynamic::default()
    };
    // `_dl_map_object_deps` walks the dynamic section itself, so that all of these entries count.
    for &(tag, at) in &entries {
        let kind = match tag {
            elf::DT_NEEDED => DependencyKind::Needed,
            elf::DT_FILTER => DependencyKind::Filter,
            elf::DT_AUXILIARY => DependencyKind::Auxiliary,
            _ => continue,
        };
        dynamic.dependencies.push(Dependency { kind, name: strings.get(at)? });
    }
    let string = |tag| value(tag).map(|at| strings.get(at)).transpose();
    dynamic.soname = string(elf::DT_SONAME)?;
    dynamic.rpath = string(elf::DT_RPATH)?;
    dynamic.runpath = string(elf::DT_RUNPATH)?;
    dynamic.audit = string(elf::DT_AUDIT)?;
    dynamic.depaudit = string(elf::DT_DEPAUDIT)?;
    Ok(dynamic)
}

/// Reads the entries up to `DT_NULL`, as for a loader, or up to the end of the bytes. `check` gets the
/// index of each before it is read.
pub(super) fn entries<'data, Elf, R>(
    source: &Source<'data, R>,
    endian: Endianness,
    place: Place,
    check: impl Fn(u64) -> Result<(), ElfError>,
) -> Result<Vec<(DynamicTag, u64)>, ElfError>
where
    Elf: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    let size = size_of::<Elf::Dyn>() as u64;
    let mut entries = Vec::new();
    for index in 0..place.in_file / size {
        check(index)?;
        let entry = place
            .offset
            .checked_add(index * size)
            .and_then(|offset| source.structure::<Elf::Dyn>(offset))
            .ok_or(ElfError::Malformed("its dynamic section is outside the file"))?;
        let tag = entry.tag(endian);
        if tag == elf::DT_NULL {
            break;
        }
        entries.push((tag, entry.val(endian)));
    }
    Ok(entries)
}

/// The strings of the dynamic section.
///
/// `DT_STRSZ` is ignored, as glibc ignores it. A string ends at its NUL, which must be in the same
/// segment.
struct Strings<'a, 'data, R> {
    source: &'a Source<'data, R>,
    memory: &'a Memory,
    table: Option<u64>,
}

impl<'data, R: ReadRef<'data>> Strings<'_, 'data, R> {
    /// Reads the string at offset `at` of the string table.
    fn get(&self, at: u64) -> Result<BString, ElfError> {
        let table =
            self.table.ok_or(ElfError::Malformed("its dynamic section has no DT_STRTAB"))?;
        // The search for the address takes one step for each segment.
        self.source.spend(STRING_COST + self.memory.loads.len() as u64)?;
        // The sum wraps like an address of the loader.
        let place = self
            .memory
            .locate(table.wrapping_add(at) & self.memory.address_mask)
            .ok_or(ElfError::Malformed("a dynamic string is outside its segments"))?;
        self.read(place)
    }

    fn read(&self, place: Place) -> Result<BString, ElfError> {
        let mut string = BString::default();
        let (mut offset, mut left) = (place.offset, place.in_file);
        while left > 0 {
            let bytes = self
                .source
                .rest_of_block(offset, left)
                .filter(|bytes| !bytes.is_empty())
                .ok_or(ElfError::Malformed("a dynamic string is outside the file"))?;
            let end = bytes.find_byte(0);
            let part = &bytes[..end.unwrap_or(bytes.len())];
            self.source.spend(part.len() as u64)?;
            string.extend_from_slice(part);
            if end.is_some() {
                return Ok(string);
            }
            offset = offset.saturating_add(bytes.len() as u64);
            left -= bytes.len() as u64;
        }
        // The loader reads a NUL in the zeros that it maps after the segment (`.bss`).
        if place.zeros_after {
            Ok(string)
        } else {
            Err(ElfError::Malformed("a dynamic string has no end"))
        }
    }
}
