//! Parses `PT_DYNAMIC` at its address in memory, as a loader does.

use bstr::{BString, ByteSlice};
use object::elf;
use object::read::ReadRef;

use super::image::Image;
use super::memory::{Memory, Place};
use super::segment::Segment;
use super::source::Source;
use super::{Dependency, DependencyKind, Dynamic, ElfError};

/// The cost of one string besides its bytes, taken from the file's budget. It limits a hostile file
/// to some hundred thousand dependencies.
const STRING_COST: u64 = 64;

/// Parses the entries, then the strings that they name.
pub(super) fn read<'data, R: ReadRef<'data>>(
    image: &Image<'data, R>,
    segment: &Segment,
) -> Result<Dynamic, ElfError> {
    let Image { source, memory, .. } = image;
    // A hostile file can have a table of gigabytes.
    let size = 2 * image.words().size() as u64;
    let entries = image.entries(segment, |_| source.spend(size))?;
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
        self.source.spend(STRING_COST + self.memory.loads().len() as u64)?;
        // The sum wraps like an address of the loader.
        let place = self
            .memory
            .locate(table.wrapping_add(at))
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
