//! The memory of an object, which its `PT_LOAD`s define.

use object::elf::PT_LOAD;

use super::Class;
use super::segment::Segment;

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
    pub(super) offset: u64,
    /// The number of bytes from there on that are in the segment and in the file.
    pub(super) in_file: u64,
    /// True if zeros follow them (`p_memsz` above `p_filesz`).
    pub(super) zeros_after: bool,
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
        let place = self.locate(address)?;
        Some((place.offset, place.in_file))
    }

    /// Finds the position of `address`.
    pub(super) fn locate(&self, address: u64) -> Option<Place> {
        // `_dl_map_segments` maps each segment over those before it: the last one wins.
        let address = address & self.address_mask;
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
