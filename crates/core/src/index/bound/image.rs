//! Reads the headers by which the module recognises an object in memory.

use object::Endianness;
use object::elf::{self, FileHeader64};
use object::read::ReadRef;
use object::read::elf::{FileHeader, ProgramHeader};

use super::BuildId;
use crate::index::hash;

/// The facts that the program headers of a 64-bit object give.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImageFacts {
    /// `PF_W` of `PT_DYNAMIC`. The loader leaves the section of an object without it as it is
    /// (`l_ld_readonly`), and nothing can be written there.
    pub is_dynamic_writable: bool,
    /// The build ID, at the address where it is in memory.
    pub build_id: Option<BuildId>,
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
                elf::PT_NOTE if facts.build_id.is_none() => {
                    facts.build_id = build_id(segment, endian, data);
                }
                _ => {}
            }
        }
        Some(facts)
    }
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
