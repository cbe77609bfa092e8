//! The room for further program headers. The table stays at its offset and grows over the bytes after
//! it. These bytes move into the new segment, and the segments, dynamic entries and section headers
//! that point to them are changed.

use std::ops::Range;

use object::elf::{
    DT_GNU_HASH, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_VERDEF, DT_VERNEED, DT_VERSYM, PT_GNU_PROPERTY,
    PT_GNU_STACK, PT_INTERP, PT_LOAD, PT_MIPS_ABIFLAGS, PT_MIPS_REGINFO, PT_NOTE, PT_NULL, PT_PHDR,
    ProgramType, SHF_ALLOC, SHT_NOBITS, SHT_NOTE, SHT_NULL,
};

use crate::format::Segment;
use crate::image::Image;

const EM_MIPS: u16 = object::elf::EM_MIPS.0;
/// The limit on displaced bytes. Above it the table itself moves instead.
const DISPLACED_MAX: u64 = 64 << 20;
/// The limit on padding between two known pieces in a file without section headers.
const BLIND_GAP: u64 = 16;

/// The bytes between pieces: zeros, or the letters that patchelf writes over removed bytes.
const FILLERS: [u8; 3] = [0, b'X', b'Z'];

/// A range of the file that moves as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) range: Range<u64>,
    pub(crate) align: u64,
}

/// The position of the new table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The displaced blocks, in ascending order.
    pub(crate) blocks: Vec<Block>,
    /// The index of the displaced `PT_NOTE` that the new note shares.
    pub(crate) shared: Option<usize>,
    /// True if the table itself moves into the new segment.
    pub(crate) table_moves: bool,
}

/// Counts the unused program headers (`PT_NULL`), which some linkers leave.
pub(crate) fn unused(image: &Image) -> usize {
    image.segments.iter().filter(|segment| segment.kind == PT_NULL).count()
}

/// Chooses the layout that displaces least. It has `slots` further program headers, and one more for a
/// note that shares none. Unused headers are used first.
pub(crate) fn choose(image: &Image, slots: usize, note: bool, tables: bool) -> Layout {
    for with_tables in [false, true].into_iter().take(1 + usize::from(tables)) {
        let pieces = Pieces::of(image, with_tables);
        // Symbol and string tables are large: then it is better to save a slot by sharing.
        for share in if with_tables { [true, false] } else { [false, true] } {
            let slots = (slots + usize::from(note && !share)).saturating_sub(unused(image));
            let Some(blocks) = pieces.displaced(image, slots) else { continue };
            if !share {
                return Layout { blocks, shared: None, table_moves: false };
            }
            let shared = if note { pieces.shared(image, blocks) } else { None };
            if let Some((blocks, index)) = shared {
                return Layout { blocks, shared: Some(index), table_moves: false };
            }
        }
    }
    Layout { blocks: Vec::new(), shared: None, table_moves: true }
}

/// Returns true for a displaced `PT_NOTE` that a further note of alignment 4 can follow.
fn can_be_shared(segment: &Segment, blocks: &[Block]) -> bool {
    segment.kind == PT_NOTE
        && segment.align <= 4
        && segment.filesz.is_multiple_of(4)
        && segment.filesz == segment.memsz
        && blocks.iter().any(|block| {
            block.range.start <= segment.offset && block.range.end == segment.file_end()
        })
}

/// Returns true for a segment that moves with the bytes it describes.
pub(crate) fn follows(image: &Image, kind: ProgramType) -> bool {
    matches!(kind, PT_INTERP | PT_NOTE | PT_GNU_PROPERTY)
        || (image.header.machine == EM_MIPS && matches!(kind, PT_MIPS_REGINFO | PT_MIPS_ABIFLAGS))
}

/// The pieces of a file that can be displaced and those that cannot.
struct Pieces {
    movable: Vec<Block>,
    fixed: Vec<Range<u64>>,
}

impl Pieces {
    fn of(image: &Image, with_tables: bool) -> Self {
        let mut movable: Vec<Block> = Vec::new();
        let mut fixed: Vec<Range<u64>> = Vec::new();
        for segment in image.segments.iter().filter(|segment| segment.filesz > 0) {
            let range = segment.offset..segment.file_end();
            match segment.kind {
                // These headers describe no content of their own that could be displaced.
                PT_LOAD | PT_PHDR | PT_GNU_STACK | PT_NULL => {}
                kind if follows(image, kind) => {
                    // A huge alignment of a hostile file would leave a hole of that size.
                    movable.push(Block { range, align: segment.align.clamp(1, 64) });
                }
                _ => fixed.push(range),
            }
        }
        let known = movable.len();
        for section in &image.sections {
            if matches!(section.kind, SHT_NULL | SHT_NOBITS) || section.size == 0 {
                continue;
            }
            let range = section.offset..section.offset.saturating_add(section.size);
            let inside =
                |block: &Block| block.range.start <= range.start && range.end <= block.range.end;
            let loaded = section.flags.0 & SHF_ALLOC.0 != 0;
            let table = with_tables && is_tagged_table(image, section.addr);
            // A table that shares bytes with another piece cannot be replaced by a longer one.
            let shares = |block: &Block| overlap(&block.range, &range);
            if table && movable.iter().any(shares) {
                fixed.push(range);
            } else if loaded && (section.kind == SHT_NOTE || table) {
                movable.push(Block { range, align: section.align.clamp(1, 64) });
            } else if !movable[..known].iter().any(inside) {
                fixed.push(range);
            }
        }
        if !image.sections.is_empty() {
            fixed.push(image.section_table());
        }
        Self { movable: merged(movable), fixed }
    }

    /// Returns the blocks to displace for `slots` further entries, or `None` if a fixed piece is in
    /// the way.
    fn displaced(&self, image: &Image, slots: usize) -> Option<Vec<Block>> {
        let start = image.table_end();
        let end = start.checked_add(slots as u64 * image.format.encoder().program_header_size())?;
        let inside = |load: &&Segment| load.offset <= image.header.phoff && end <= load.file_end();
        // The kernel and the loader read the table through a mapped segment.
        image.loads().find(inside)?;
        if self.fixed.iter().any(|range| overlap(range, &(start..end))) {
            return None;
        }
        let taken: Vec<Block> = self
            .movable
            .iter()
            .filter(|block| overlap(&block.range, &(start..end)))
            .cloned()
            .collect();
        let clear = |block: &Block| {
            block.range.start >= start
                && !self.fixed.iter().any(|fixed| overlap(fixed, &block.range))
        };
        let size: u64 = taken.iter().map(|block| block.range.end - block.range.start).sum();
        if size > DISPLACED_MAX || !taken.iter().all(clear) {
            return None;
        }
        self.gaps_are_free(image, start..end, &taken).then_some(taken)
    }

    /// Finds a `PT_NOTE` that the new note can share. A note is displaced only for this if necessary.
    fn shared(&self, image: &Image, mut blocks: Vec<Block>) -> Option<(Vec<Block>, usize)> {
        let among = |blocks: &[Block]| {
            image.segments.iter().position(|segment| can_be_shared(segment, blocks))
        };
        if let Some(index) = among(&blocks) {
            return Some((blocks, index));
        }
        let clear = |block: &&Block| !self.fixed.iter().any(|it| overlap(it, &block.range));
        let one = |block: &&Block| among(std::slice::from_ref(block)).is_some();
        let block = self.movable.iter().filter(clear).find(one)?.clone();
        let index = among(std::slice::from_ref(&block))?;
        blocks.push(block);
        blocks.sort_by_key(|block| block.range.start);
        Some((blocks, index))
    }

    /// Returns true if there is only padding between the blocks.
    fn gaps_are_free(&self, image: &Image, region: Range<u64>, taken: &[Block]) -> bool {
        // Without section headers a gap may be data of an unknown kind.
        let blind = image.sections.is_empty();
        let free = |from: u64, to: u64| {
            let size = to.saturating_sub(from);
            let filler = |bytes: &[u8]| bytes.iter().all(|byte| FILLERS.contains(byte));
            (!blind || size < BLIND_GAP) && image.bytes_at(from, size).is_some_and(filler)
        };
        let mut at = region.start;
        for block in taken {
            if block.range.start > at && !free(at, block.range.start) {
                return false;
            }
            at = at.max(block.range.end);
        }
        at >= region.end || free(at, region.end)
    }
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

/// Joins blocks that overlap, and sorts them in ascending order.
fn merged(mut blocks: Vec<Block>) -> Vec<Block> {
    blocks.sort_by_key(|block| (block.range.start, block.range.end));
    let mut result: Vec<Block> = Vec::new();
    for block in blocks {
        match result.last_mut() {
            Some(last) if block.range.start < last.range.end => {
                last.range.end = last.range.end.max(block.range.end);
                last.align = last.align.max(block.align);
            }
            _ => result.push(block),
        }
    }
    result
}

/// The dynamic entries of tables that only the loader reads, and only through these entries.
pub(crate) const TABLE_TAGS: [object::elf::DynamicTag; 7] =
    [DT_HASH, DT_GNU_HASH, DT_SYMTAB, DT_STRTAB, DT_VERSYM, DT_VERNEED, DT_VERDEF];

fn is_tagged_table(image: &Image, addr: u64) -> bool {
    let Some(dynamic) = &image.dynamic else { return false };
    addr != 0 && TABLE_TAGS.iter().any(|&tag| dynamic.value(tag) == Some(addr))
}
