//! Reads the headers by which the module recognises an object in memory.

use object::elf;
use object::read::ReadRef;

use super::{BuildId, Tables};
use crate::elf::{Class, Image, Segment};
use crate::index::hash;
use crate::symbols::ObjectSymbols;

/// Size of an `Elf64_Sym` and of an entry of `DT_VERSYM`.
const SYMBOL: u64 = 24;
const VERSION: u64 = 2;

/// The facts about the file of a 64-bit object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageFacts {
    /// `PF_W` of `PT_DYNAMIC`. The loader leaves the section of an object without it as it is
    /// (`l_ld_readonly`), and nothing can be written there.
    pub is_dynamic_writable: bool,
    /// The build ID, at the address where it is in memory.
    pub build_id: Option<BuildId>,
    /// The tables that the bindings of the object rest on. `None` if a table is not in the file, or if
    /// addends are in the relocated words (`DT_RELR`).
    pub tables: Option<Tables>,
}

impl ImageFacts {
    /// Reads the facts about the file with these tables. Returns `None` if it is not a 64-bit object or
    /// its headers are outside the file.
    pub fn read<'data, R: ReadRef<'data>>(symbols: &ObjectSymbols, data: R) -> Option<Self> {
        let image = Image::new(data).ok().filter(|it| it.ident.class == Class::Elf64)?;
        let build_id = image.build_id().and_then(|(address, id)| {
            let (address, length) = (u32::try_from(address).ok()?, u32::try_from(id.len()).ok()?);
            (length > 0).then_some(BuildId { address, length, hash: hash::bytes(0, id) })
        });
        let is_dynamic_writable = image.dynamic.is_some_and(|segment| segment.is_writable);
        Some(Self { is_dynamic_writable, build_id, tables: tables_of(symbols, &image) })
    }
}

fn tables_of<'data, R: ReadRef<'data>>(
    symbols: &ObjectSymbols,
    image: &Image<'data, R>,
) -> Option<Tables> {
    let tag = |tag| symbols.tags.get(tag);
    if tag(elf::DT_RELR).is_some() {
        return None;
    }
    let count = u64::from(symbols.symbol_count());
    let tables = [
        (tag(elf::DT_SYMTAB), Some(count * SYMBOL)),
        (tag(elf::DT_STRTAB), tag(elf::DT_STRSZ)),
        (tag(elf::DT_VERSYM), Some(count * VERSION)),
        (tag(elf::DT_RELA), tag(elf::DT_RELASZ)),
        (tag(elf::DT_JMPREL), tag(elf::DT_PLTRELSZ)),
    ];
    let loads = &image.loads;
    let mut ranges: Vec<(usize, u64, u64)> = Vec::new();
    for (from, length) in tables.into_iter().filter_map(|(from, length)| from.zip(length)) {
        if length > 0 {
            let is_within = |load: &Segment| {
                let into = from.checked_sub(load.vaddr);
                into.is_some_and(|into| into <= load.filesz.saturating_sub(length))
            };
            let load = loads.iter().position(is_within)?;
            ranges.push((load, from, from.checked_add(length)?));
        }
    }
    ranges.sort_unstable();
    // What is between two tables of a segment that nobody writes to is a table, too.
    ranges.dedup_by(|next, last| {
        let is_one = next.0 == last.0 && !loads[next.0].is_writable;
        if is_one {
            last.2 = last.2.max(next.2);
        }
        is_one
    });
    let mut tables = Tables { ranges: Vec::new(), hash: 0 };
    for (load, from, to) in ranges {
        let bytes = image.bytes_of(&loads[load], from - loads[load].vaddr, to - from)?;
        tables.hash = hash::block(tables.hash, bytes);
        tables.ranges.push((u32::try_from(from).ok()?, u32::try_from(to - from).ok()?));
    }
    Some(tables).filter(|tables| !tables.ranges.is_empty())
}
