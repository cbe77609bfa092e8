//! The parts of an object's file that its start uses before `main`, by the headers alone.

use object::elf;
use object::read::ReadRef;

use super::Image;

impl<'data, R: ReadRef<'data>> Image<'data, R> {
    /// Returns ranges of the file, as offset and length of at least 1, that a start uses: the headers,
    /// the tables for symbol lookups and relocations, what is relocated, and the first byte of each
    /// constructor and of the entry point. A hostile file may have ranges beyond its end.
    ///
    /// These are the whole tables, of which a start uses a part. Nothing is known of what the code of
    /// constructors uses. Constructors whose addresses only relocations have are left out.
    #[must_use]
    pub fn start_ranges(&self) -> Vec<(u64, u64)> {
        let tags = self.dynamic_entries().ok();
        let value = |tag| tags.as_ref()?.get(tag);
        let sizes = [
            (elf::DT_STRTAB, elf::DT_STRSZ),
            (elf::DT_RELA, elf::DT_RELASZ),
            (elf::DT_REL, elf::DT_RELSZ),
            (elf::DT_RELR, elf::DT_RELRSZ),
            (elf::DT_JMPREL, elf::DT_PLTRELSZ),
        ];
        let ends = sizes.iter().filter_map(|&(table, size)| {
            let place = self.locate(value(table)?)?;
            Some(place.offset.saturating_add(value(size)?.min(place.in_file)))
        });
        // Linkers put the headers and these tables at the beginning of the file.
        let mut ranges = vec![(0, ends.max().unwrap_or(1).max(1))];
        ranges.extend(self.dynamic.map(|segment| (segment.offset, segment.filesz.max(1))));
        let loads = self.loads.iter().filter(|load| load.is_writable && load.filesz > 0);
        ranges.extend(loads.map(|load| (load.offset, load.filesz)));
        let table = value(elf::DT_INIT_ARRAY).zip(value(elf::DT_INIT_ARRAYSZ));
        let table = table.and_then(|(address, size)| self.bytes(address, size));
        let functions = table.unwrap_or_default().chunks_exact(self.ident.address_size());
        let functions = functions.filter_map(|entry| self.ident.address(entry, 0));
        let entry = self.source.bytes(0, 64).and_then(|head| self.ident.address(head, 24));
        let code = functions.chain(entry).chain(value(elf::DT_INIT));
        let code = code.filter_map(|address| self.locate(address));
        ranges.extend(code.map(|place| (place.offset, 1)));
        ranges
    }
}
