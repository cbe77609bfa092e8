//! The symbols of moved sections in `.symtab`, such as `__abi_tag` of the C library's start code, and
//! `_DYNAMIC`. Their values are changed for debuggers and linters. No loader reads them. And the size of
//! the largest dynamic symbol.

use becalm_core::patch::Write;
use object::elf::{SHT_DYNAMIC, SHT_DYNSYM, SHT_SYMTAB};

use crate::format::{Format, Place};
use crate::image::Image;
use crate::segment::Appended;

/// The limit on local symbols. Those of sections and of the start code come first.
const SYMBOLS_MAX: u64 = 1024;
/// The limit if the dynamic section moves. `_DYNAMIC` can be at any position.
const SYMBOLS_MAX_DYNAMIC: u64 = 1 << 17;

/// The limit on the size of a symbol that [`largest`] counts. Real ones have some ten thousand bytes.
const SIZE_MAX: u64 = 1 << 20;

/// The size of a symbol and the offsets of its fields (gABI, "Symbol Table").
struct Shape {
    size: u64,
    value: usize,
    length: usize,
    index: usize,
}

impl Shape {
    fn of(format: Format) -> Self {
        match format.is_64() {
            true => Self { size: 24, value: 8, length: 16, index: 6 },
            false => Self { size: 16, value: 4, length: 8, index: 14 },
        }
    }
}

/// Returns the new values of the symbols of moved sections. `dynamic` is the new position of the
/// dynamic section, if it moves.
pub(crate) fn follow(image: &Image, appended: &Appended, dynamic: Option<Place>) -> Vec<Write> {
    let shape = Shape::of(image.format);
    let most = if dynamic.is_some() { SYMBOLS_MAX_DYNAMIC } else { SYMBOLS_MAX };
    let format = image.format;
    // The new value of a symbol, or `None` if it is unchanged.
    let moved = |symbol: &[u8]| {
        let index = format.endian.u16(symbol, shape.index).filter(|&index| index > 0)?;
        let section = image.sections.get(usize::from(index)).filter(|section| section.size > 0)?;
        let vaddr = match (section.kind, dynamic) {
            (SHT_DYNAMIC, Some(place)) => place.vaddr,
            _ => appended.moved(section.offset, section.size)?.vaddr,
        };
        let into = format.read_word(symbol, shape.value)?.checked_sub(section.addr)?;
        // A symbol may mark the end of its section.
        (into <= section.size).then(|| vaddr.wrapping_add(into))
    };
    let mut writes = Vec::new();
    for table in image.sections.iter().filter(|section| section.kind == SHT_SYMTAB) {
        let locals = u64::from(table.info).min(table.size / shape.size).min(most);
        let Some(bytes) = image.bytes_at(table.offset, locals * shape.size) else { continue };
        for (at, symbol) in bytes.chunks_exact(shape.size as usize).enumerate() {
            let Some(value) = moved(symbol) else { continue };
            let offset = table.offset + at as u64 * shape.size + shape.value as u64;
            // An address of more than 32 bits was refused before.
            writes.extend(format.word(value).ok().map(|bytes| Write { offset, bytes }));
        }
    }
    writes
}

/// Returns the size of the largest dynamic symbol, up to 1 MiB.
pub(crate) fn largest(image: &Image) -> u64 {
    let shape = Shape::of(image.format);
    let tables = image.sections.iter().filter(|section| section.kind == SHT_DYNSYM);
    tables
        .filter_map(|table| image.bytes_at(table.offset, table.size))
        .flat_map(|bytes| bytes.chunks_exact(shape.size as usize))
        .filter_map(|symbol| image.format.read_word(symbol, shape.length))
        .filter(|&size| size <= SIZE_MAX)
        .max()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::File;
    use crate::tests::builder::{Builder, FORMATS};
    use crate::tests::read_image;

    #[test]
    fn no_symbol_at_the_end_of_the_data_reaches_the_new_segment() {
        for format in FORMATS {
            let mut data = Builder::program(format).build();
            let image = read_image(&data);
            let table = image.sections.iter().find(|it| it.kind == SHT_DYNSYM).unwrap();
            let at = table.offset as usize + Shape::of(format).length;
            let size = format.word(0x2_3456).unwrap();
            data[at..at + size.len()].copy_from_slice(&size);
            let edits = [becalm_core::edit::Edit::Soname("a".into())];
            let done = crate::edit(data.as_slice(), &edits).unwrap().patch.unwrap();
            let after = read_image(&done.applied_to(&data)).loads().next_back().copied();
            let top = image.loads().next_back().unwrap().memory_end();
            assert!(after.unwrap().vaddr >= top + 0x2_3456);
        }
    }

    /// Makes a symbol table with one symbol in the section `index`, `into` bytes after its start.
    fn with_symbol(format: Format, name: &[u8], into: u64) -> (Image<'static>, &'static [u8], u64) {
        let mut data = Builder::program(format).build();
        let mut image = read_image(&data);
        let index = image.sections.iter().position(|it| image.section_name(it) == name).unwrap();
        let shape = Shape::of(format);
        let mut symbol = vec![0; shape.size as usize];
        let value = format.word(image.sections[index].addr + into).unwrap();
        symbol[shape.value..shape.value + value.len()].copy_from_slice(&value);
        symbol[shape.index..shape.index + 2].copy_from_slice(&format.u16(index as u16));
        let offset = data.len() as u64;
        data.extend(vec![0; shape.size as usize]);
        data.extend(symbol);
        let mut table = image.sections[index];
        (table.kind, table.offset, table.size, table.info) =
            (SHT_SYMTAB, offset, 2 * shape.size, 2);
        image.sections.push(table);
        image.length = data.len() as u64;
        let data: &'static [u8] = data.leak();
        image.data = Box::leak(Box::new(File::new(data)));
        (image, data, offset + shape.size + shape.value as u64)
    }

    #[test]
    fn a_symbol_in_a_displaced_section_follows_it_and_others_stay() {
        for format in FORMATS {
            let (image, data, at) = with_symbol(format, b".interp", 3);
            let interp = *image.interpreter().unwrap();
            let mut appended = Appended::begin(&image, image.length, false, 0).unwrap();
            let range = interp.offset..interp.file_end();
            let bytes = &data[range.start as usize..range.end as usize];
            appended.push_moved(range, bytes, 1);
            let vaddr = appended.moved(interp.offset, interp.filesz).unwrap().vaddr;
            let expected = Write { offset: at, bytes: format.word(vaddr + 3).unwrap() };
            assert_eq!(follow(&image, &appended, None), [expected]);

            let (image, _, at) = with_symbol(format, b".dynamic", 0);
            assert_eq!(follow(&image, &appended, None), []);
            let place = Place { offset: 0x5000, vaddr: 0x7000, size: 16 };
            let expected = Write { offset: at, bytes: format.word(place.vaddr).unwrap() };
            assert_eq!(follow(&image, &appended, Some(place)), [expected]);
        }
    }
}
