//! Parses `PT_DYNAMIC` at its address in memory, as a loader does.

use bstr::{BString, ByteSlice};
use object::elf;
use object::read::ReadRef;

use super::image::Image;
use super::{Dependency, DependencyKind, Dynamic, ElfError};

/// The cost of one string besides its bytes, taken from the file's budget. It limits a hostile file
/// to some hundred thousand dependencies.
const STRING_COST: u64 = 64;

/// Parses the entries, then the strings that they name.
pub(super) fn read<'data, R: ReadRef<'data>>(image: &Image<'data, R>) -> Result<Dynamic, ElfError> {
    let tags = image.dynamic_entries()?;
    // `DT_STRTAB` may follow the entries that name a string.
    let table = tags.get(elf::DT_STRTAB);
    let mut dynamic = Dynamic {
        flags: tags.get(elf::DT_FLAGS).unwrap_or(0),
        flags_1: tags.get(elf::DT_FLAGS_1).unwrap_or(0),
        has_debug: tags.get(elf::DT_DEBUG).is_some(),
        ..Dynamic::default()
    };
    // `_dl_map_object_deps` walks the dynamic section itself, so that all of these entries count.
    for &(tag, at) in &tags.0 {
        let kind = match tag {
            elf::DT_NEEDED => DependencyKind::Needed,
            elf::DT_FILTER => DependencyKind::Filter,
            elf::DT_AUXILIARY => DependencyKind::Auxiliary,
            _ => continue,
        };
        dynamic.dependencies.push(Dependency { kind, name: string(image, table, at)? });
    }
    let text = |tag| tags.get(tag).map(|at| string(image, table, at)).transpose();
    dynamic.soname = text(elf::DT_SONAME)?;
    dynamic.rpath = text(elf::DT_RPATH)?;
    dynamic.runpath = text(elf::DT_RUNPATH)?;
    dynamic.audit = text(elf::DT_AUDIT)?;
    dynamic.depaudit = text(elf::DT_DEPAUDIT)?;
    Ok(dynamic)
}

/// Reads the string at offset `at` of the string table.
///
/// `DT_STRSZ` is ignored, as glibc ignores it. A string ends at its NUL, which must be in the same
/// segment.
fn string<'data, R: ReadRef<'data>>(
    image: &Image<'data, R>,
    table: Option<u64>,
    at: u64,
) -> Result<BString, ElfError> {
    let Image { source, loads, .. } = image;
    let table = table.ok_or(ElfError::Malformed("its dynamic section has no DT_STRTAB"))?;
    // The search for the address takes one step for each segment.
    source.spend(STRING_COST + loads.len() as u64)?;
    // The sum wraps like an address of the loader.
    let place = image.locate(table.wrapping_add(at));
    let place = place.ok_or(ElfError::Malformed("a dynamic string is outside its segments"))?;
    let mut string = BString::default();
    let (mut offset, mut left) = (place.offset, place.in_file);
    while left > 0 {
        let bytes = source.rest_of_block(offset, left).filter(|bytes| !bytes.is_empty());
        let bytes = bytes.ok_or(ElfError::Malformed("a dynamic string is outside the file"))?;
        let end = bytes.find_byte(0);
        let part = &bytes[..end.unwrap_or(bytes.len())];
        source.spend(part.len() as u64)?;
        string.extend_from_slice(part);
        if end.is_some() {
            return Ok(string);
        }
        offset = offset.saturating_add(bytes.len() as u64);
        left -= bytes.len() as u64;
    }
    // The loader reads a NUL in the zeros that it maps after the segment (`.bss`).
    place.zeros_after.then_some(string).ok_or(ElfError::Malformed("a dynamic string has no end"))
}
