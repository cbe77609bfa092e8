//! The appended segments: their offsets and addresses, and the bytes that moved into them.

use std::ops::Range;

use object::elf::{PF_R, PF_W, PT_LOAD, ProgramFlags};

use crate::format::{Place, Segment};
use crate::image::{Dynamic, ET_EXEC, Image};
use crate::record::{LEADER_SIZE, SEGMENT};
use crate::{Result, RewriteError};

/// The limit on the hole in the file that keeps a moved table at its address.
const HOLE_MAX: u64 = 16 << 20;
/// The alignment of the appended content in the file.
const ALIGN: u64 = 16;

/// The size of the segment's own head: the magic and the offset of the leader.
pub(crate) const HEAD_SIZE: u64 = 16;

/// The appended bytes, from the segment's head to the section headers.
#[derive(Debug)]
pub(crate) struct Appended {
    pub(crate) offset: u64,
    pub(crate) bytes: Vec<u8>,
    /// The difference between address and offset in the segment that is being filled.
    bias: u64,
    page: u64,
    pub(crate) loads: Vec<Segment>,
    /// Ranges of the original that have moved, and their places. The new size may differ.
    moves: Vec<(Range<u64>, Place)>,
}

/// Returns the largest page size of a machine (`e_machine`), to which appended segments are aligned. Every
/// kernel maps a segment with this alignment (binutils `ELF_MAXPAGESIZE`, Linux `arch/*/Kconfig`).
#[must_use]
pub fn page_size(machine: u16) -> u64 {
    use object::elf::{EM_68K, EM_386, EM_RISCV, EM_S390, EM_X86_64};
    let small = [EM_386, EM_X86_64, EM_RISCV, EM_S390].map(|machine| machine.0);
    if small.contains(&machine) {
        4096
    } else if machine == EM_68K.0 {
        8192
    } else {
        0x1_0000
    }
}

fn round_up(value: u64, align: u64) -> Result<u64> {
    value.checked_next_multiple_of(align).ok_or(RewriteError::NoAddressSpace)
}

impl Appended {
    /// Starts the read-only segment after the record's leader, with a gap of addresses before it.
    pub(crate) fn begin(image: &Image, leader: u64, table_moves: bool, gap: u64) -> Result<Self> {
        let page = page_size(image.header.machine);
        // A loader reserves one range of addresses from the first segment to the last. A segment
        // after the last one extends that range, and overlaps nothing.
        let top = image.loads().map(Segment::memory_end).max().unwrap_or(0);
        let top = round_up(top.checked_add(gap).ok_or(RewriteError::NoAddressSpace)?, page)?;
        let mut offset = round_up(leader + LEADER_SIZE, ALIGN)?;
        // The offset and the address must agree within a page, because segments are mapped by page
        // (gABI, `p_align`).
        let mut vaddr = top.checked_add(offset % page).ok_or(RewriteError::NoAddressSpace)?;
        if table_moves {
            // A loader without `PT_PHDR` computes the address of the table from a segment that
            // contains its offset. No other segment may contain it.
            for load in image.loads() {
                offset = offset.max(round_up(load.file_end(), page)?);
            }
            vaddr = top.checked_add(offset % page).ok_or(RewriteError::NoAddressSpace)?;
            if let (true, Some(first)) = (starts_by_itself(image), image.loads().next()) {
                // Linux before 5.18 computes `AT_PHDR` from the first segment (`fs/binfmt_elf.c`), so
                // the new segment needs the same distance of address and offset.
                let bias = first.vaddr.wrapping_sub(first.offset);
                let lowest = top.wrapping_sub(bias);
                if lowest > offset && lowest - offset > HOLE_MAX {
                    return Err(RewriteError::NoRoom);
                }
                offset = round_up(offset.max(lowest), ALIGN)?;
                vaddr = offset.wrapping_add(bias);
                if vaddr < top {
                    return Err(RewriteError::NoRoom);
                }
            }
        }
        let mut bytes = SEGMENT.to_vec();
        bytes.extend(leader.to_le_bytes());
        let bias = vaddr.wrapping_sub(offset);
        Ok(Self { offset, bytes, bias, page, loads: Vec::new(), moves: Vec::new() })
    }

    /// Returns the next free offset.
    pub(crate) fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }

    /// Pads to `align`, adds bytes, and returns their place.
    pub(crate) fn push(&mut self, bytes: &[u8], align: u64) -> Place {
        let align = align.max(1);
        // `bias` is a multiple of the page, which no alignment here exceeds.
        let offset = self.end().next_multiple_of(align);
        self.bytes.resize((offset - self.offset) as usize, 0);
        self.bytes.extend(bytes);
        Place { offset, vaddr: offset.wrapping_add(self.bias), size: bytes.len() as u64 }
    }

    /// Adds the moved bytes of the range `old`.
    pub(crate) fn push_moved(&mut self, old: Range<u64>, bytes: &[u8], align: u64) {
        let place = self.push(bytes, align);
        self.moves.push((old, place));
    }

    /// Ends the segment that begins at this offset.
    pub(crate) fn close(&mut self, offset: u64, flags: ProgramFlags) -> Result<()> {
        let filesz = self.end() - offset;
        let vaddr = offset.wrapping_add(self.bias);
        // A segment must not wrap around the end of the address space.
        vaddr.checked_add(filesz).ok_or(RewriteError::NoAddressSpace)?;
        let place = Place { offset, vaddr, size: filesz };
        self.loads.push(Segment::of(PT_LOAD, flags, place, self.page));
        Ok(())
    }

    /// Adds a writable segment after the read-only one. `content` returns its bytes for an address.
    /// Returns the segment's place.
    pub(crate) fn writable(
        &mut self,
        content: impl FnOnce(u64) -> Result<Vec<u8>>,
    ) -> Result<Place> {
        let end = self.loads.last().map_or(0, Segment::memory_end);
        let offset = round_up(self.end(), ALIGN)?;
        // A page of its own, because its permissions differ.
        let vaddr = round_up(end, self.page)?
            .checked_add(offset % self.page)
            .ok_or(RewriteError::NoAddressSpace)?;
        self.bias = vaddr.wrapping_sub(offset);
        // One entry on MIPS is relative to its own address, so the content depends on it.
        let bytes = content(vaddr)?;
        let place = self.push(&bytes, ALIGN);
        self.close(offset, PF_R | PF_W)?;
        Ok(place)
    }

    /// Returns the new place of a range of the original, or `None` if it has not moved. A range that has moved
    /// as a whole may have another size, such as a longer `.dynstr`.
    pub(crate) fn moved(&self, offset: u64, size: u64) -> Option<Place> {
        let range = offset..offset.checked_add(size)?;
        if let Some((_, place)) = self.moves.iter().find(|(old, _)| *old == range) {
            return Some(*place);
        }
        let is_around = |old: &Range<u64>| old.start <= offset && range.end <= old.end;
        let (old, place) = self.moves.iter().find(|(old, _)| is_around(old))?;
        let inside = offset - old.start;
        let (offset, vaddr) = (place.offset + inside, place.vaddr.wrapping_add(inside));
        Some(Place { offset, vaddr, size })
    }
}

/// Returns true if the kernel passes the address of the table to the program (`AT_PHDR`).
fn starts_by_itself(image: &Image) -> bool {
    image.header.kind == ET_EXEC
        || image.interpreter().is_some()
        || image.dynamic.as_ref().is_some_and(Dynamic::is_pie)
}
