//! Reads the headers by which the module recognises an object in memory.

use object::Endianness;
use object::elf::{self, FileHeader64};
use object::read::ReadRef;
use object::read::elf::{FileHeader, ProgramHeader};

use super::{BuildId, Tables, entries};
use crate::index::hash;
use crate::symbols::ObjectSymbols;

/// Size of an `Elf64_Sym` and of an entry of `DT_VERSYM`.
const SYMBOL: u64 = 24;
const VERSION: u64 = 2;

/// The facts that the program headers of a 64-bit object give.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageFacts {
    /// `PF_W` of `PT_DYNAMIC`. The loader leaves the section of an object without it as it is
    /// (`l_ld_readonly`), and nothing can be written there.
    pub is_dynamic_writable: bool,
    /// The build ID, at the address where it is in memory.
    pub build_id: Option<BuildId>,
    /// The parts of the file that are loaded.
    loads: Vec<Loaded>,
}

/// A `PT_LOAD`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Loaded {
    address: u64,
    offset: u64,
    length: u64,
    is_writable: bool,
}

impl ImageFacts {
    /// Reads the facts. Returns `None` if the file is not a 64-bit object or its headers are
    /// outside the file.
    pub fn read<'data, R: ReadRef<'data>>(data: R) -> Option<Self> {
        let header = FileHeader64::<Endianness>::parse(data).ok()?;
        let endian = header.endian().ok()?;
        let segments = header.program_headers(endian, data).ok()?;
        let mut facts = Self::default();
        for segment in segments {
            match segment.p_type(endian) {
                elf::PT_DYNAMIC => {
                    facts.is_dynamic_writable = segment.p_flags(endian).0 & elf::PF_W.0 != 0;
                }
                elf::PT_LOAD => facts.loads.push(Loaded {
                    address: segment.p_vaddr(endian),
                    offset: segment.p_offset(endian),
                    length: segment.p_filesz(endian),
                    is_writable: segment.p_flags(endian).0 & elf::PF_W.0 != 0,
                }),
                elf::PT_NOTE if facts.build_id.is_none() => {
                    facts.build_id = build_id(segment, endian, data);
                }
                _ => {}
            }
        }
        Some(facts)
    }
}

/// Returns the tables that the bindings of an object rest on. Returns `None` if a table is not in
/// the file, or if addends are in the relocated words (`DT_RELR`).
#[must_use]
pub fn tables_of<'data, R: ReadRef<'data>>(
    symbols: &ObjectSymbols,
    facts: &ImageFacts,
    data: R,
) -> Option<Tables> {
    let tag = |wanted: elf::DynamicTag| {
        let mut all = entries(symbols);
        all.find(|&(tag, _)| tag.cast_signed() == wanted.0).map(|(_, value)| value)
    };
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
    let mut ranges: Vec<(usize, u64, u64)> = Vec::new();
    for (from, length) in tables.into_iter().filter_map(|(from, length)| from.zip(length)) {
        let is_within = |load: &Loaded| {
            from >= load.address && from - load.address <= load.length.saturating_sub(length)
        };
        let load = facts.loads.iter().position(is_within).filter(|_| length > 0);
        match load {
            Some(load) => ranges.push((load, from, from.checked_add(length)?)),
            None if length == 0 => {}
            None => return None,
        }
    }
    ranges.sort_unstable();
    // What is between two tables of a segment that nobody writes to is a table, too.
    ranges.dedup_by(|next, last| {
        let is_one = next.0 == last.0 && !facts.loads[next.0].is_writable;
        if is_one {
            last.2 = last.2.max(next.2);
        }
        is_one
    });
    let mut tables = Tables { ranges: Vec::new(), hash: 0 };
    for (load, from, to) in ranges {
        let Loaded { address, offset, .. } = facts.loads[load];
        let bytes = data.read_bytes_at((from - address).checked_add(offset)?, to - from).ok()?;
        tables.hash = hash::block(tables.hash, bytes);
        tables.ranges.push((u32::try_from(from).ok()?, u32::try_from(to - from).ok()?));
    }
    Some(tables).filter(|tables| !tables.ranges.is_empty())
}

fn build_id<'data, R: ReadRef<'data>>(
    segment: &elf::ProgramHeader64<Endianness>,
    endian: Endianness,
    data: R,
) -> Option<BuildId> {
    let bytes = segment.data(endian, data).ok()?;
    let mut notes = segment.notes(endian, data).ok()??;
    while let Ok(Some(note)) = notes.next() {
        if note.name() == elf::ELF_NOTE_GNU && note.n_type(endian) == elf::NT_GNU_BUILD_ID {
            // The descriptor is a part of the segment's bytes.
            let id = note.desc();
            let within = (id.as_ptr() as usize).checked_sub(bytes.as_ptr() as usize)?;
            let address = segment.p_vaddr(endian).checked_add(within as u64)?;
            let length = u32::try_from(id.len()).ok().filter(|&length| length > 0)?;
            return Some(BuildId {
                address: u32::try_from(address).ok()?,
                length,
                hash: hash::bytes(0, id),
            });
        }
    }
    None
}
