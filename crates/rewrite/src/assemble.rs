//! Builds the overwritten and appended bytes from an original and a goal.
//!
//! The order is: the strings and dynamic entries, which determine the number of added segments; the
//! room for their program headers; the segments; all pointers to the moved bytes.

use std::ops::Range;

use becalm_core::patch::Write;
use object::elf::{
    DT_STRSZ, DT_STRTAB, PF_R, PN_XNUM, PT_DYNAMIC, PT_INTERP, PT_LOAD, PT_NOTE, PT_NULL, PT_PHDR,
};

use crate::dynamic;
use crate::format::{Dyn, Place, Segment};
use crate::goal::{Goal, Names};
use crate::image::{File, Image, SECTIONS_MAX, Source, is_static_pie};
use crate::layout::{self, Block, Layout, TABLE_TAGS};
use crate::notes::{self, NOTE_NAME};
use crate::overlay;
use crate::record::{Content, LEADER_SIZE};
use crate::sections::{self, News, VOID_NAME};
use crate::segment::Appended;
use crate::strings::Strings;
use crate::symbols;
use crate::versions;
use crate::{Result, RewriteError};

/// The number of spare `DT_NULL` entries in a moved dynamic section.
const SPARE: usize = 4;

/// Bytes that replace a range of the original.
type Replaced = (Range<u64>, Vec<u8>);

/// The parts of the new image, before their offsets are known.
struct Parts {
    /// The small changes of the original's content in place.
    changes: Vec<Write>,
    /// The string table, if it grows.
    strings: Option<Replaced>,
    entries: Option<Vec<Dyn>>,
    note: Option<Vec<u8>>,
    interpreter: Option<Replaced>,
    /// True if the dynamic section has no room for its entries.
    dynamic_moves: bool,
}

/// Builds the finished image. The record is appended at `append_at`.
///
/// # Errors
/// Returns [`RewriteError`] if the file has no room, or if its structures contradict each other.
pub(crate) fn assemble(image: &Image, goal: &Goal, append_at: u64) -> Result<Content> {
    let image = &goal.fields.changed(image);
    let parts = &Parts::of(image, goal)?;
    let needs_segment = parts.dynamic_moves
        || parts.note.is_some()
        || parts.interpreter.is_some()
        || parts.strings.is_some();
    if !needs_segment {
        return in_place(image, parts, goal, append_at);
    }
    let slots = 1 + usize::from(parts.dynamic_moves);
    let tables = image.dynamic.is_some() && !is_static_pie(image);
    let layout = layout::choose(image, slots, parts.note.is_some(), tables);
    // `eu-elflint` adds the size of a relocation's symbol to the place that it changes, and reports a
    // text relocation if the sum is in a read-only segment (`check_one_reloc`). A table that moves
    // would leave the gap in the file as well.
    let gap = if layout.table_moves { 0 } else { symbols::largest(image) };
    let mut builder = Builder {
        image,
        parts,
        table_offset: image.header.phoff,
        appended: Appended::begin(image, append_at, layout.table_moves, gap)?,
        news: News::default(),
        layout,
        writes: Vec::new(),
    };
    // A displaced block is copied with the small changes in it.
    let changed = overlay::new(image.data, &parts.changes, image.length);
    builder.fill(&File::new(&changed))?;
    builder.put_dynamic()?;
    builder.writes.extend(symbols::follow(image, &builder.appended, builder.news.dynamic));
    builder.finish(goal, append_at)
}

impl Parts {
    fn of(image: &Image, goal: &Goal) -> Result<Self> {
        let mut strings = Strings::new(image);
        let old = goal.names.as_ref().map(|_| Names::of(image)).transpose()?;
        let names = old.as_ref().zip(goal.names.as_ref());
        let entries = image
            .dynamic
            .as_ref()
            .map(|dynamic| dynamic::entries(dynamic, names, &goal.fields, &mut strings));
        let entries = entries.transpose()?;
        let mut changes = goal.fields.versions(image)?;
        if let Some((old, new)) = names {
            changes.extend(versions::follow(image, old, new, &mut strings)?);
        }
        // An existing note is hidden even if a new one follows, because the first note counts.
        if goal.note.is_some() {
            void_notes(image, &mut changes);
        }
        // The overlay needs the writes in ascending order.
        changes.sort_by_key(|change| change.offset);
        let note = goal.note.iter().flatten().next();
        let note = note.map(|it| notes::note(image.format.endian, it)).transpose()?;
        let interpreter = image.interpreter().zip(goal.interpreter.as_ref());
        let interpreter = interpreter.map(|(segment, path)| {
            (segment.offset..segment.file_end(), [path.as_slice(), b"\0"].concat())
        });
        // One more entry is the `DT_NULL` at the end.
        let full = image.dynamic.as_ref().zip(entries.as_ref());
        let dynamic_moves = full.is_some_and(|(old, new)| new.len() + 1 > old.capacity);
        Ok(Self { changes, strings: strings.grown(), entries, note, interpreter, dynamic_moves })
    }
}

/// Builds the image without a new segment: all changes fit in place.
fn in_place(image: &Image, parts: &Parts, goal: &Goal, append_at: u64) -> Result<Content> {
    let mut writes = parts.changes.clone();
    if goal.fields.os_abi.is_some() {
        writes.push(Write { offset: 0, bytes: image.format.write(&image.header)? });
    }
    if goal.fields.executable_stack.is_some() {
        let bytes = image.format.table(&image.segments)?;
        writes.push(Write { offset: image.header.phoff, bytes });
    }
    if let (Some(entries), Some(dynamic)) = (&parts.entries, &image.dynamic) {
        let bytes = dynamic::bytes(image, entries, dynamic.vaddr, dynamic.capacity)?;
        writes.push(Write { offset: dynamic.offset, bytes });
    }
    let (offset, appended) = (append_at + LEADER_SIZE, Vec::new());
    checked(Content { append_at, offset, appended, writes, note: None, table_moves: false })
}

/// Hides the existing resolution notes from all readers: their type becomes 0, and their section gets
/// another name.
fn void_notes(image: &Image, changes: &mut Vec<Write>) {
    let found = notes::resolution(image);
    for note in &found {
        // The type follows two lengths.
        changes.push(Write { offset: note.offset + 8, bytes: vec![0; 4] });
    }
    let Some(names) = image.section_of_names() else { return };
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
    image: &'a Image<'a>,
    parts: &'a Parts,
    layout: Layout,
    appended: Appended,
    table_offset: u64,
    news: News,
    writes: Vec<Write>,
}

impl Builder<'_> {
    /// Fills the read-only segment.
    fn fill(&mut self, data: &dyn Source) -> Result<()> {
        let (image, parts) = (self.image, self.parts);
        let shared = self.layout.shared.map(|index| image.segments[index].file_end());
        // The table is written last; here it gets its room.
        if self.layout.table_moves {
            let note = parts.note.is_some() && shared.is_none();
            let more = 1 + usize::from(parts.dynamic_moves) + usize::from(note);
            let count = image.segments.len() + more - layout::unused(image).min(more);
            let table = vec![0; count * image.format.encoder().program_header_size() as usize];
            self.table_offset =
                self.appended.push(&table, image.format.encoder().address_size()).offset;
        }
        // The new interpreter and string table replace blocks and are pushed later.
        let replaced = || parts.interpreter.iter().chain(&parts.strings);
        for Block { range, align } in self.layout.blocks.clone() {
            let end = range.end;
            if !replaced().any(|(again, _)| *again == range) {
                let broken = RewriteError::Malformed("a displaced range cannot be read");
                let bytes = data.bytes_at(range.start, end - range.start).ok_or(broken)?;
                self.appended.push_moved(range, bytes, align);
            }
            // The note follows the displaced one whose `PT_NOTE` it shares.
            if shared == Some(end) {
                self.push_note();
            }
        }
        if shared.is_none() {
            self.push_note();
        }
        for (range, bytes) in replaced() {
            self.appended.push_moved(range.clone(), bytes, 1);
        }
        self.appended.close(self.appended.offset, PF_R)
    }

    fn push_note(&mut self) {
        self.news.note = self.parts.note.as_ref().map(|note| self.appended.push(note, 4));
    }

    /// Writes the dynamic section with the addresses of moved tables, in place or in a writable segment.
    fn put_dynamic(&mut self) -> Result<()> {
        let (image, parts) = (self.image, self.parts);
        let (Some(entries), Some(dynamic)) = (&parts.entries, &image.dynamic) else {
            return Ok(());
        };
        let grown = parts.strings.as_ref().map(|(_, bytes)| bytes.len() as u64);
        let mut entries = entries.clone();
        for entry in &mut entries {
            // Other tags name addresses in code and data, which never move.
            if TABLE_TAGS.contains(&entry.tag) {
                let place = image.file_offset(entry.value, 1);
                let moved = place.and_then(|offset| self.appended.moved(offset, 1));
                entry.value = moved.map_or(entry.value, |place| place.vaddr);
            }
            if let (DT_STRSZ, Some(size)) = (entry.tag, grown) {
                entry.value = size;
            }
        }
        debug_assert!(grown.is_none() || entries.iter().any(|it| it.tag == DT_STRTAB));
        if parts.dynamic_moves {
            let capacity = entries.len() + 1 + SPARE;
            let bytes = |vaddr| dynamic::bytes(image, &entries, vaddr, capacity);
            self.news.dynamic = Some(self.appended.writable(bytes)?);
        } else {
            let bytes = dynamic::bytes(image, &entries, dynamic.vaddr, dynamic.capacity)?;
            self.writes.push(Write { offset: dynamic.offset, bytes });
        }
        Ok(())
    }

    /// Returns the program headers: the old ones with the offsets of moved bytes, and the new ones
    /// after the last of their kind.
    fn segments(&self) -> Vec<Segment> {
        let mut segments = self.image.segments.clone();
        let interpreter = self.parts.interpreter.as_ref().map(|(_, path)| path.len() as u64);
        for (index, segment) in segments.iter_mut().enumerate() {
            if layout::follows(self.image, segment.kind)
                && let Some(Place { offset, vaddr, .. }) =
                    self.appended.moved(segment.offset, segment.filesz)
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
        let size = segments.len() as u64 * self.image.format.encoder().program_header_size();
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

    /// Writes the program headers, the section headers and the ELF header.
    fn finish(mut self, goal: &Goal, append_at: u64) -> Result<Content> {
        let image = self.image;
        let segments = self.segments();
        let table = image.format.table(&segments)?;
        let table_end = self.table_offset + table.len() as u64;
        let mut names = image.names.clone();
        self.keep_changes(table_end, &mut names);
        let mut header = image.header.clone();
        // With `PN_XNUM` the count is in section 0, which neither the kernel nor a loader reads.
        let count = u16::try_from(segments.len()).ok().filter(|&count| count < PN_XNUM);
        (header.phnum, header.phoff) = (count.ok_or(RewriteError::NoRoom)?, self.table_offset);
        if !image.sections.is_empty() {
            let (news, appended) = (self.news, &mut self.appended);
            let (offset, count) = sections::append(image, names, &news, table_end, appended)?;
            let count = u16::try_from(count).ok().filter(|&count| count < SECTIONS_MAX);
            (header.shnum, header.shoff) = (count.ok_or(RewriteError::TooManySections)?, offset);
        }
        self.writes.push(Write { offset: 0, bytes: image.format.write(&header)? });
        let Appended { offset, bytes: mut appended, .. } = self.appended;
        let table_moves = self.layout.table_moves;
        if table_moves {
            let at = (self.table_offset - offset) as usize;
            appended[at..at + table.len()].copy_from_slice(&table);
        } else {
            self.writes.push(Write { offset: self.table_offset, bytes: table });
        }
        // The header, owner and padding of the note take 20 bytes.
        let descriptor = goal.note.iter().flatten().next().map_or(0, |it| it.len() as u64);
        let note = self.news.note.map(|place| (place.offset + 20, descriptor));
        let writes = self.writes;
        checked(Content { append_at, offset, appended, writes, note, table_moves })
    }

    /// Adds the small changes that the new program header table does not cover. Changed section names
    /// are changed in the new table of names as well.
    fn keep_changes(&mut self, table_end: u64, names: &mut [u8]) {
        let named = self.image.section_of_names().map_or(0, |it| it.offset);
        for change in &self.parts.changes {
            let end = change.offset + change.bytes.len() as u64;
            let covered = change.offset < table_end && self.table_offset < end;
            if self.layout.table_moves || !covered {
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

/// Sorts the writes of a content. The record stores the old bytes of each range, so they must not overlap.
fn checked(mut content: Content) -> Result<Content> {
    content.writes.sort_by_key(|write| write.offset);
    let end = |write: &Write| write.offset + write.bytes.len() as u64;
    if content.writes.windows(2).any(|pair| end(&pair[0]) > pair[1].offset) {
        return Err(RewriteError::Malformed("its headers overlap what they describe"));
    }
    Ok(content)
}
