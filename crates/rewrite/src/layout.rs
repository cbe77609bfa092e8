//! Where the further program headers go. The table keeps its place and grows over what
//! follows it; what stood there is displaced into the new segment, and whatever points
//! to it follows: segments, dynamic entries, section headers.

use std::ops::Range;

use object::ReadRef;
use object::elf::{
    DT_GNU_HASH, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_VERDEF, DT_VERNEED, DT_VERSYM, PT_GNU_PROPERTY,
    PT_GNU_STACK, PT_INTERP, PT_LOAD, PT_NOTE, PT_NULL, PT_PHDR, ProgramType, SHF_ALLOC,
    SHT_NOBITS, SHT_NOTE, SHT_NULL,
};

use crate::format::Segment;
use crate::image::{Image, bytes_at};

/// `PT_MIPS_REGINFO` and `PT_MIPS_ABIFLAGS`, which only their program headers name.
const PT_MIPS_REGINFO: ProgramType = ProgramType(0x7000_0000);
const PT_MIPS_ABIFLAGS: ProgramType = ProgramType(0x7000_0003);
const EM_MIPS: u16 = 8;
/// The most that may be displaced before the table itself moves instead.
const DISPLACED_MAX: u64 = 64 << 20;
/// Padding that may lie between two known pieces where no section headers tell.
const BLIND_GAP: u64 = 16;

/// What lies between pieces: zeros, or what patchelf puts where something was.
const FILLERS: [u8; 3] = [0, b'X', b'Z'];

/// Bytes of the file that move as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) range: Range<u64>,
    pub(crate) align: u64,
}

/// Where the table stands afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// What is displaced for it, in ascending order.
    pub(crate) blocks: Vec<Block>,
    /// The displaced `PT_NOTE` that our note shares (its index).
    pub(crate) shared: Option<usize>,
    /// The table itself moves into the new segment.
    pub(crate) table_moves: bool,
}

/// Program headers that say nothing: some linkers leave one to be used.
pub(crate) fn unused(image: &Image) -> usize {
    image.segments.iter().filter(|segment| segment.kind == PT_NULL).count()
}

/// Chooses the way that displaces least: `slots` further program headers, one more for a
/// note that shares none. Unused ones are taken first.
pub(crate) fn choose<'data, R: ReadRef<'data>>(
    image: &Image,
    data: R,
    slots: usize,
    note: bool,
    tables: bool,
) -> Layout {
    for with_tables in [false, true] {
        if with_tables && !tables {
            break;
        }
        let room = MountNamespace::of(image, with_tables);
        // Displaced tables are large: there one slot less counts for more.
        for share in if with_tables { [true, false] } else { [false, true] } {
            let slots = (slots + usize::from(note && !share)).saturating_sub(unused(image));
            let Some(blocks) = room.displaced(image, data, slots) else { continue };
            if !share {
                return Layout { blocks, shared: None, table_moves: false };
            }
            let shared = if note { room.shared(image, blocks) } else { None };
            if let Some((blocks, index)) = shared {
                return Layout { blocks, shared: Some(index), table_moves: false };
            }
        }
    }
    Layout { blocks: Vec::new(), shared: None, table_moves: true }
}

/// A displaced `PT_NOTE` at whose end a further note of alignment 4 can stand.
fn can_be_shared(segment: &Segment, blocks: &[Block]) -> bool {
    segment.kind == PT_NOTE
        && segment.align <= 4
        && segment.filesz.is_multiple_of(4)
        && segment.filesz == segment.memsz
        && blocks.iter().any(|block| {
            block.range.start <= segment.offset && block.range.end == segment.file_end()
        })
}

/// True for a segment that follows what it describes.
pub(crate) fn follows(image: &Image, kind: ProgramType) -> bool {
    matches!(kind, PT_INTERP | PT_NOTE | PT_GNU_PROPERTY)
        || (image.machine == EM_MIPS && matches!(kind, PT_MIPS_REGINFO | PT_MIPS_ABIFLAGS))
}

/// What can be displaced and what cannot.
struct MountNamespace {
    movable: Vec<Block>,
    fixed: Vec<Range<u64>>,
}

impl MountNamespace {
    fn of(image: &Image, with_tables: bool) -> Self {
        let mut movable: Vec<Block> = Vec::new();
        let mut fixed: Vec<Range<u64>> = Vec::new();
        for segment in image.segments.iter().filter(|segment| segment.filesz > 0) {
            let range = segment.offset..segment.file_end();
            match segment.kind {
                PT_LOAD | PT_PHDR | PT_GNU_STACK | PT_NULL => {}
                kind if follows(image, kind) => {
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
            let size = image.sections.len() as u64 * image.format.section_size();
            fixed.push(image.section_table_offset..image.section_table_offset + size);
        }
        Self { movable: merged(movable), fixed }
    }

    /// The blocks that give way to `slots` further entries.
    fn displaced<'data, R: ReadRef<'data>>(
        &self,
        image: &Image,
        data: R,
        slots: usize,
    ) -> Option<Vec<Block>> {
        let start = image.table_end();
        let end = start.checked_add(slots as u64 * image.format.segment_size())?;
        let inside = |load: &&Segment| load.offset <= image.table_offset && end <= load.file_end();
        image.loads().find(inside)?;
        if self.fixed.iter().any(|range| range.start < end && start < range.end) {
            return None;
        }
        let taken: Vec<Block> = self
            .movable
            .iter()
            .filter(|block| block.range.start < end && start < block.range.end)
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
        self.gaps_are_free(image, data, start..end, &taken).then_some(taken)
    }

    /// A `PT_NOTE` that ours can share, displaced for that alone where need be.
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

    /// True where nothing but padding lies between the blocks.
    fn gaps_are_free<'data, R: ReadRef<'data>>(
        &self,
        image: &Image,
        data: R,
        region: Range<u64>,
        taken: &[Block],
    ) -> bool {
        let blind = image.sections.is_empty();
        let free = |from: u64, to: u64| {
            let size = to.saturating_sub(from);
            let filler = |bytes: &[u8]| bytes.iter().all(|byte| FILLERS.contains(byte));
            (!blind || size < BLIND_GAP) && bytes_at(data, from, size).is_some_and(filler)
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

/// Blocks that overlap become one, in ascending order.
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

/// The dynamic entries whose tables only the loader reads, and only through them.
pub(crate) const TABLE_TAGS: [object::elf::DynamicTag; 7] =
    [DT_HASH, DT_GNU_HASH, DT_SYMTAB, DT_STRTAB, DT_VERSYM, DT_VERNEED, DT_VERDEF];

fn is_tagged_table(image: &Image, addr: u64) -> bool {
    let Some(dynamic) = &image.dynamic else { return false };
    addr != 0 && TABLE_TAGS.iter().any(|&tag| dynamic.value(tag) == Some(addr))
}
