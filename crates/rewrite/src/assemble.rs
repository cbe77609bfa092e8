//! Builds the overwritten and appended bytes from an original and a goal.
//!
//! The order is: the strings and dynamic entries, which determine the number of added segments; the
//! room for their program headers; the segments; all pointers to the moved bytes.

use becalm_core::patch::Write;
use object::ReadRef;
use object::elf::{
    DT_STRSZ, DT_STRTAB, PF_R, PT_DYNAMIC, PT_INTERP, PT_LOAD, PT_NOTE, PT_NULL, PT_PHDR,
};

use crate::dynamic::{self, Entry};
use crate::fields::Fields;
use crate::format::{Place, Segment};
use crate::goal::{Goal, Names};
use crate::image::{Image, SECTIONS_MAX, bytes_at, is_static_pie};
use crate::layout::{self, Layout, TABLE_TAGS};
use crate::notes::NOTE_NAME;
use crate::overlay::Overlay;
use crate::record::{Content, LEADER_SIZE};
use crate::sections::{self, News, VOID_NAME};
use crate::segment::{Appended, HEAD_SIZE};
use crate::strings::Strings;
use crate::{RewriteError, Warning, notes, symbols, versions};

/// The number of spare `DT_NULL` entries in a moved dynamic section.
const SPARE: usize = 4;

/// The finished image without its record.
pub(crate) struct Draft {
    pub(crate) content: Content,
    pub(crate) warnings: Vec<Warning>,
}

/// The parts of the new image, before their offsets are known.
struct Parts<'data> {
    /// The small changes of the original's content in place.
    changes: Vec<Write>,
    strings: Strings<'data>,
    entries: Option<Vec<Entry>>,
    note: Option<Vec<u8>>,
    /// The length of the note's descriptor without padding.
    descriptor: u64,
    interpreter: Option<Vec<u8>>,
    /// True if the dynamic section has no room for its entries.
    dynamic_moves: bool,
}

/// Builds the finished image. The record is appended at `append_at`.
///
/// # Errors
/// Returns [`RewriteError`] if the file has no room, or if its structures contradict each other.
pub(crate) fn assemble<'data, R: ReadRef<'data>>(
    image: &Image,
    data: R,
    goal: &Goal,
    append_at: u64,
) -> Result<Draft, RewriteError> {
    let image = &goal.fields.changed(image);
    let parts = Parts::of(image, data, goal)?;
    let after = append_at + LEADER_SIZE;
    if !parts.needs_segment() {
        return parts.in_place(image, &goal.fields, append_at);
    }
    let layout = parts.layout(image, data);
    // `eu-elflint` adds the size of a relocation's symbol to the place that it changes, and reports a
    // text relocation if the sum is in a read-only segment (`check_one_reloc`). A table that moves
    // would leave the gap in the file as well.
    let gap = if layout.table_moves { 0 } else { symbols::largest(image, data) };
    let mut builder = Builder {
        image,
        table_offset: image.table_offset,
        appended: Appended::begin(image, append_at, after, layout.table_moves, gap)?,
        news: News::default(),
        layout,
        writes: Vec::new(),
    };
    // A displaced block is copied with the small changes in it.
    let changed = Overlay::new(data, &parts.changes, image.length);
    builder.fill(&changed, &parts)?;
    builder.writes = symbols::follow(image, data, &builder.appended, builder.news.dynamic);
    builder.finish(&parts, append_at)
}

impl<'data> Parts<'data> {
    fn of<R: ReadRef<'data>>(image: &Image, data: R, goal: &Goal) -> Result<Self, RewriteError> {
        let mut strings = Strings::default();
        let mut changes = Vec::new();
        let old = goal.names.as_ref().map(|_| Names::of(image, data)).transpose()?;
        let names = old.as_ref().zip(goal.names.as_ref());
        let mut entries = match &image.dynamic {
            Some(_) => Some(dynamic::entries(image, data, names, &mut strings)?),
            None => None,
        };
        if let Some(entries) = &mut entries {
            dynamic::set_fields(entries, &goal.fields);
        }
        changes.extend(goal.fields.versions(image, data)?);
        if let Some((old, new)) = names {
            changes.extend(versions::follow(image, data, old, new, &mut strings)?);
        }
        // An existing note is hidden even if a new one follows, because the first note counts.
        if goal.note.is_some() {
            void_notes(image, data, &mut changes);
        }
        // `Overlay` needs the writes in ascending order.
        changes.sort_by_key(|change| change.offset);
        let note = goal.note.as_ref().and_then(Option::as_ref);
        let descriptor = note.map_or(0, |it| it.len() as u64);
        let note = note.map(|it| notes::note(image.format, it)).transpose()?;
        let interpreter = goal.interpreter.as_ref().map(|path| [path.as_slice(), b"\0"].concat());
        // One more entry is the `DT_NULL` at the end.
        let full = |entries: &Vec<Entry>| {
            image.dynamic.as_ref().is_some_and(|dynamic| entries.len() + 1 > dynamic.capacity)
        };
        let dynamic_moves = entries.as_ref().is_some_and(full);
        Ok(Self { changes, strings, entries, note, descriptor, interpreter, dynamic_moves })
    }

    fn needs_segment(&self) -> bool {
        self.note.is_some()
            || self.interpreter.is_some()
            || self.dynamic_moves
            || self.strings.grown().is_some()
    }

    fn layout<R: ReadRef<'data>>(&self, image: &Image, data: R) -> Layout {
        let slots = 1 + usize::from(self.dynamic_moves);
        let tables = image.dynamic.is_some() && !is_static_pie(image);
        layout::choose(image, data, slots, self.note.is_some(), tables)
    }

    /// Builds the image without a new segment: all changes fit in place.
    fn in_place(
        self,
        image: &Image,
        fields: &Fields,
        append_at: u64,
    ) -> Result<Draft, RewriteError> {
        let mut writes = self.changes;
        writes.extend(fields.headers(image)?);
        if let (Some(entries), Some(dynamic)) = (&self.entries, &image.dynamic) {
            let bytes = dynamic::bytes(image, entries, dynamic.vaddr, dynamic.capacity)?;
            writes.push(Write { offset: dynamic.offset, bytes });
        }
        let appended = Appended::outside(append_at + LEADER_SIZE);
        draft(writes, appended, append_at, None, Vec::new())
    }
}

/// Hides the existing resolution notes from all readers: their type becomes 0, and their section gets
/// another name.
fn void_notes<'data, R: ReadRef<'data>>(image: &Image, data: R, changes: &mut Vec<Write>) {
    let found = notes::resolution(image, data);
    for note in &found {
        // The type follows two lengths.
        changes.push(Write { offset: note.offset + 8, bytes: vec![0; 4] });
    }
    let Some(names) = image.sections.get(image.names_index) else { return };
    for section in &image.sections {
        let holds = |note: &notes::Found| {
            (section.offset..section.offset.saturating_add(section.size)).contains(&note.offset)
        };
        // A tool that finds the note by its section must not read it either.
        if image.section_name(section) == NOTE_NAME && found.iter().any(holds) {
            let offset = names.offset + u64::from(section.name);
            changes.push(Write { offset, bytes: VOID_NAME.to_vec() });
        }
    }
    // Two sections can share a name.
    changes.dedup_by_key(|change| change.offset);
}

/// The state while the segments are filled.
struct Builder<'a> {
    image: &'a Image,
    layout: Layout,
    appended: Appended,
    table_offset: u64,
    news: News,
    writes: Vec<Write>,
}

impl Builder<'_> {
    /// Fills the read-only segment, then the writable one.
    fn fill<'o, R: ReadRef<'o>>(&mut self, data: R, parts: &Parts) -> Result<(), RewriteError> {
        let image = self.image;
        let (offset, vaddr) = (self.appended.offset, self.appended.push(&[], 1).1 - HEAD_SIZE);
        self.news.head = Some(Place { offset, vaddr, size: HEAD_SIZE });
        // The table is written last; here it gets its room.
        if self.layout.table_moves {
            let count = self.segment_count(parts);
            let table = vec![0; count * image.format.segment_size() as usize];
            self.table_offset = self.appended.push(&table, image.format.word_align()).0;
        }
        let grown = parts.strings.grown();
        let replaced = self.replaced_interpreter(parts);
        for index in 0..self.layout.blocks.len() {
            let block = self.layout.blocks[index].clone();
            // The new string table and interpreter replace these blocks and are pushed later.
            let again = [grown.as_ref().map(|it| &it.0), replaced.as_ref().map(|it| &it.0)];
            if !again.contains(&Some(&block.range)) {
                let size = block.range.end - block.range.start;
                let broken = RewriteError::Malformed("a displaced range cannot be read");
                let bytes = bytes_at(data, block.range.start, size).ok_or(broken)?;
                self.appended.push_moved(block.range.clone(), bytes, block.align);
            }
            self.push_shared_note(&block, parts);
        }
        if let (Some(note), None) = (&parts.note, self.layout.shared) {
            self.push_note(note);
        }
        for (range, bytes) in replaced.into_iter().chain(grown) {
            self.appended.push_moved(range, &bytes, 1);
        }
        self.appended.close()?;
        self.fill_writable(parts)
    }

    fn replaced_interpreter(&self, parts: &Parts) -> Option<(std::ops::Range<u64>, Vec<u8>)> {
        let segment = self.image.interpreter()?;
        Some((segment.offset..segment.file_end(), parts.interpreter.clone()?))
    }

    fn push_note(&mut self, note: &[u8]) {
        let (offset, vaddr) = self.appended.push(note, 4);
        self.news.note = Some(Place { offset, vaddr, size: note.len() as u64 });
    }

    /// Adds the note right after the displaced one whose `PT_NOTE` it shares.
    fn push_shared_note(&mut self, block: &layout::Block, parts: &Parts) {
        let Some(shared) = self.layout.shared.map(|index| self.image.segments[index]) else {
            return;
        };
        if let (Some(note), true) = (&parts.note, block.range.end == shared.file_end()) {
            self.push_note(note);
        }
    }

    fn fill_writable(&mut self, parts: &Parts) -> Result<(), RewriteError> {
        let Some(entries) = parts.entries.as_ref().filter(|_| parts.dynamic_moves) else {
            return Ok(());
        };
        let entries = self.relocated(entries, parts);
        let capacity = entries.len() + 1 + SPARE;
        let image = self.image;
        let (offset, vaddr) =
            self.appended.writable(|vaddr| dynamic::bytes(image, &entries, vaddr, capacity))?;
        let size = capacity as u64 * image.format.dyn_size();
        self.news.dynamic = Some(Place { offset, vaddr, size });
        Ok(())
    }

    /// Returns the dynamic entries with the addresses of moved tables.
    fn relocated(&self, entries: &[Entry], parts: &Parts) -> Vec<Entry> {
        let grown = parts.strings.grown().map(|(_, bytes)| bytes.len() as u64);
        let mut entries = entries.to_vec();
        for entry in &mut entries {
            let entry = &mut entry.entry;
            // Other tags name addresses in code and data, which never move.
            if TABLE_TAGS.contains(&entry.tag) {
                let place = self.image.file_offset(entry.value, 1);
                let moved = place.and_then(|offset| self.appended.moved(offset, 1));
                entry.value = moved.map_or(entry.value, |(_, vaddr)| vaddr);
            }
            if let (DT_STRSZ, Some(size)) = (entry.tag, grown) {
                entry.value = size;
            }
        }
        debug_assert!(grown.is_none() || entries.iter().any(|it| it.entry.tag == DT_STRTAB));
        entries
    }

    fn segment_count(&self, parts: &Parts) -> usize {
        let note = parts.note.is_some() && self.layout.shared.is_none();
        let more = 1 + usize::from(parts.dynamic_moves) + usize::from(note);
        let unused = layout::unused(self.image).min(more);
        self.image.segments.len() + more - unused
    }

    /// Returns the program headers: the old ones with the offsets of moved bytes, and the new ones
    /// after the last of their kind.
    fn segments(&self, parts: &Parts) -> Vec<Segment> {
        let mut segments = self.image.segments.clone();
        let interpreter = parts.interpreter.as_ref().map(|bytes| bytes.len() as u64);
        for (index, segment) in segments.iter_mut().enumerate() {
            if layout::follows(self.image, segment.kind)
                && let Some((offset, vaddr)) = self.appended.moved(segment.offset, segment.filesz)
            {
                (segment.offset, segment.vaddr, segment.paddr) = (offset, vaddr, vaddr);
            }
            if let (PT_INTERP, Some(size)) = (segment.kind, interpreter) {
                (segment.filesz, segment.memsz) = (size, size);
            }
            if let (true, Some(note)) = (self.layout.shared == Some(index), self.news.note) {
                segment.filesz = note.offset + note.size - segment.offset;
                segment.memsz = segment.filesz;
            }
            if let (PT_DYNAMIC, Some(place)) = (segment.kind, self.news.dynamic) {
                (segment.offset, segment.vaddr, segment.paddr) =
                    (place.offset, place.vaddr, place.vaddr);
                (segment.filesz, segment.memsz) = (place.size, place.size);
            }
        }
        let note = self
            .news
            .note
            .filter(|_| self.layout.shared.is_none())
            .map(|place| Segment::of(PT_NOTE, PF_R, place, 4));
        // An unused header makes room for a new one.
        let mut unused = self.appended.loads.len() + note.iter().len();
        segments.retain(|segment| {
            let goes = segment.kind == PT_NULL && unused > 0;
            unused -= usize::from(goes);
            !goes
        });
        insert(&mut segments, note.as_slice());
        insert(&mut segments, &self.appended.loads);
        let size = segments.len() as u64 * self.image.format.segment_size();
        let place = self.layout.table_moves.then(|| self.appended.loads.first()).flatten();
        for table in segments.iter_mut().filter(|segment| segment.kind == PT_PHDR) {
            (table.filesz, table.memsz) = (size, size);
            if let Some(load) = place {
                table.offset = self.table_offset;
                table.vaddr = load.vaddr + (self.table_offset - load.offset);
                table.paddr = table.vaddr;
            }
        }
        segments
    }

    /// Writes the program headers, the dynamic section, the section headers and the ELF header.
    fn finish(mut self, parts: &Parts, append_at: u64) -> Result<Draft, RewriteError> {
        let image = self.image;
        let segments = self.segments(parts);
        let mut table = Vec::new();
        for segment in &segments {
            table.extend(image.format.segment(segment)?);
        }
        let mut names = image.names.clone();
        self.keep_changes(parts, table.len() as u64, &mut names);
        if let (Some(entries), Some(dynamic), false) =
            (&parts.entries, &image.dynamic, parts.dynamic_moves)
        {
            let entries = self.relocated(entries, parts);
            let bytes = dynamic::bytes(image, &entries, dynamic.vaddr, dynamic.capacity)?;
            self.writes.push(Write { offset: dynamic.offset, bytes });
        }
        let mut header = Header::of(image);
        header.segments(segments.len(), self.table_offset)?;
        if !image.sections.is_empty() {
            let table_end = self.table_offset + table.len() as u64;
            let (news, appended) = (self.news, &mut self.appended);
            let (offset, count) = sections::append(image, &names, &news, table_end, appended)?;
            header.sections(count, offset)?;
        }
        self.writes.push(Write { offset: 0, bytes: header.bytes });
        if self.layout.table_moves {
            let at = (self.table_offset - self.appended.offset) as usize;
            self.appended.bytes[at..at + table.len()].copy_from_slice(&table);
        } else {
            self.writes.push(Write { offset: self.table_offset, bytes: table });
        }
        // The header, owner and padding of the note take 20 bytes.
        let note = self.news.note.map(|place| (place.offset + 20, parts.descriptor));
        let moved = self.layout.table_moves.then_some(Warning::TableMoved);
        draft(self.writes, self.appended, append_at, note, moved.into_iter().collect())
    }

    /// Adds the small changes that the new program header table does not cover. Changed section names
    /// are changed in the new table of names as well.
    fn keep_changes(&mut self, parts: &Parts, table_size: u64, names: &mut [u8]) {
        let table = self.table_offset..self.table_offset + table_size;
        let named = self.image.sections.get(self.image.names_index).map_or(0, |it| it.offset);
        for change in &parts.changes {
            let end = change.offset + change.bytes.len() as u64;
            let covered =
                !self.layout.table_moves && change.offset < table.end && table.start < end;
            if !covered {
                self.writes.push(change.clone());
            }
            let inside = change
                .offset
                .checked_sub(named)
                .and_then(|at| names.get_mut(at as usize..)?.get_mut(..change.bytes.len()));
            if let Some(inside) = inside.filter(|_| change.bytes == VOID_NAME) {
                inside.copy_from_slice(&change.bytes);
            }
        }
    }
}

/// Inserts segments after the last one of their kind, or at the end if there is none.
fn insert(segments: &mut Vec<Segment>, new: &[Segment]) {
    // The gABI requires `PT_LOAD` headers in ascending order of their addresses. The new segments have
    // the highest addresses.
    let Some(kind) = new.first().map(|segment| segment.kind) else { return };
    debug_assert!(kind == PT_LOAD || kind == PT_NOTE);
    let at = segments.iter().rposition(|it| it.kind == kind).map_or(segments.len(), |at| at + 1);
    segments.splice(at..at, new.iter().copied());
}

fn draft(
    mut writes: Vec<Write>,
    appended: Appended,
    append_at: u64,
    note: Option<(u64, u64)>,
    warnings: Vec<Warning>,
) -> Result<Draft, RewriteError> {
    writes.sort_by_key(|write| write.offset);
    let end = |write: &Write| write.offset + write.bytes.len() as u64;
    // The record stores the old bytes of each range, so the ranges must not overlap.
    if writes.windows(2).any(|pair| end(&pair[0]) > pair[1].offset) {
        return Err(RewriteError::Malformed("its headers overlap what they describe"));
    }
    let Appended { offset, bytes, .. } = appended;
    let content = Content { append_at, offset, appended: bytes, writes, note };
    Ok(Draft { content, warnings })
}

/// The ELF header with the offsets of the new tables.
struct Header<'a> {
    image: &'a Image,
    bytes: Vec<u8>,
}

impl<'a> Header<'a> {
    fn of(image: &'a Image) -> Self {
        Self { image, bytes: image.header.clone() }
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        if let Some(place) = self.bytes.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }

    /// Sets `e_phoff` and `e_phnum`.
    fn segments(&mut self, count: usize, offset: u64) -> Result<(), RewriteError> {
        // With `PN_XNUM` the count is in section 0, which neither the kernel nor a loader reads.
        let count = u16::try_from(count).ok().filter(|&count| count < object::elf::PN_XNUM);
        let count = count.ok_or(RewriteError::NoRoom)?;
        let (number_at, offset_at) = if self.image.format.is_64() { (56, 32) } else { (44, 28) };
        self.put(number_at, &self.image.format.u16(count));
        self.put(offset_at, &self.image.format.word(offset)?);
        Ok(())
    }

    /// Sets `e_shoff` and `e_shnum`.
    fn sections(&mut self, count: usize, offset: u64) -> Result<(), RewriteError> {
        let count = u16::try_from(count).ok().filter(|&count| count < SECTIONS_MAX);
        let count = count.ok_or(RewriteError::TooManySections)?;
        let (number_at, offset_at) = if self.image.format.is_64() { (60, 40) } else { (48, 32) };
        self.put(number_at, &self.image.format.u16(count));
        self.put(offset_at, &self.image.format.word(offset)?);
        Ok(())
    }
}
