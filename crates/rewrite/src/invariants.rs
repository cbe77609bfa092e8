//! The rules that every finished image must keep. They are checked before the image is written, so
//! that a bug of this crate cannot produce a file that does not start.
//!
//! A rule checks only the bytes that the edit made or changed. An original may break it elsewhere.

use becalm_core::elf::{self, ObjectView};
use becalm_core::patch::Write;
use object::elf::{PT_DYNAMIC, PT_LOAD, PT_PHDR, SHF_ALLOC, SHT_NOBITS};

use crate::format::Segment;
use crate::goal::{Goal, Names};
use crate::image::{File, Image};
use crate::layout::{TABLE_TAGS, follows};
use crate::notes;
use crate::overlay;
use crate::record::{Content, LEADER_SIZE};
use crate::sections;
use crate::{Result, RewriteError};

/// The name of a rule, and its check.
type Rule = (&'static str, fn(&Finished) -> bool);

/// The finished image and the original.
struct Finished<'a> {
    before: &'a Image<'a>,
    after: Image<'a>,
    content: &'a Content,
    goal: &'a Goal,
    view: Option<ObjectView>,
}

/// Checks the finished image.
///
/// # Errors
/// Returns [`RewriteError::Invariant`] with the first broken rule.
pub(crate) fn check(before: &Image, content: &Content, goal: &Goal) -> Result<()> {
    let ordered = "what is written is in order and inside its bounds";
    if !writes_are_in_bounds(before, content) {
        return Err(RewriteError::Invariant(ordered));
    }
    let mut writes = content.writes.clone();
    writes.push(Write { offset: content.offset, bytes: content.appended.clone() });
    let length = content.offset + content.appended.len() as u64;
    let patched = overlay::new(before.data, &writes, length);
    let file = File::new(&patched);
    let after =
        Image::read(&file).map_err(|_| RewriteError::Invariant("its headers can be read"))?;
    // The core's parser is an independent implementation, so an error of one of them is noticed.
    let view = elf::parse(&patched).ok();
    check_rules(&Finished { before, after, content, goal, view })
}

fn check_rules(finished: &Finished) -> Result<()> {
    let rules: [Rule; 14] = [
        ("every old segment is as it was", old_segments_stay),
        ("segments ascend and do not overlap", segments_ascend),
        ("a segment's offset and address agree within a page", pages_agree),
        ("everything that the headers name is in the file", all_in_the_file),
        ("the program header table is mapped where PT_PHDR says", table_is_mapped),
        ("what a program header names is mapped where it says", described_is_mapped),
        ("no other segment begins with a segment of ours", nothing_begins_with_ours),
        ("dynamic entries point into the file's mapped part", tables_are_mapped),
        ("the addresses and offsets of sections agree with the segments", sections_agree),
        ("every segment that had a section has one", no_segment_is_emptied),
        ("the resolution note is the wanted one, and the only one", one_note),
        ("the interpreter is the wanted one", interpreter_is_right),
        ("the changed fields are the wanted ones", |it| it.goal.fields.hold(&it.after)),
        ("the dynamic strings are the wanted ones", strings_are_right),
    ];
    match rules.iter().find(|(_, holds)| !holds(finished)) {
        Some((name, _)) => Err(RewriteError::Invariant(name)),
        None => Ok(()),
    }
}

/// Returns true if the writes are inside the original, in ascending order and without overlap, and
/// the appended bytes are after the leader.
fn writes_are_in_bounds(before: &Image, content: &Content) -> bool {
    let mut at = 0;
    let inside = content.writes.iter().all(|write| {
        let (start, end) = (write.offset, write.offset.saturating_add(write.bytes.len() as u64));
        let fine = at <= start && end <= before.length;
        at = end;
        fine
    });
    inside
        && content.append_at >= before.length
        && content.offset >= content.append_at + LEADER_SIZE
}

fn old_segments_stay(it: &Finished) -> bool {
    // Code and relocations refer to these addresses, so no field may differ.
    it.before.loads().all(|load| it.after.loads().any(|other| load == other))
}

fn segments_ascend(it: &Finished) -> bool {
    let ends = it.after.loads().map(Segment::memory_end);
    let starts = it.after.loads().skip(1).map(|load| load.vaddr);
    ends.zip(starts).all(|(end, start)| end <= start)
}

/// Returns the `PT_LOAD`s that the edit added.
fn ours<'a>(it: &'a Finished) -> impl Iterator<Item = &'a Segment> {
    it.after.loads().filter(|load| it.before.loads().all(|other| *load != other))
}

fn pages_agree(it: &Finished) -> bool {
    ours(it).all(|load| {
        load.align.is_power_of_two()
            && load.vaddr.wrapping_sub(load.offset).is_multiple_of(load.align)
    })
}

fn all_in_the_file(it: &Finished) -> bool {
    it.after.extent() <= it.content.offset + it.content.appended.len() as u64
}

fn table_is_mapped(it: &Finished) -> bool {
    let is_unchanged = it.after.segments.len() == it.before.segments.len();
    let was_wrong = !table_is_described(it.before);
    is_unchanged
        || (load_of_table(&it.after).is_some() && (was_wrong || table_is_described(&it.after)))
}

/// Returns true if each `PT_PHDR` describes the program header table.
fn table_is_described(image: &Image) -> bool {
    let size = image.table_end() - image.header.phoff;
    let mut described = image.segments.iter().filter(|segment| segment.kind == PT_PHDR);
    described.all(|table| {
        table.offset == image.header.phoff
            && table.filesz == size
            && load_of_table(image).is_some_and(|load| {
                table.vaddr.wrapping_sub(load.vaddr) == table.offset - load.offset
            })
    })
}

/// Returns the segment that maps the program header table.
fn load_of_table<'a>(image: &'a Image) -> Option<&'a Segment> {
    image
        .loads()
        .find(|load| load.offset <= image.header.phoff && image.table_end() <= load.file_end())
}

fn described_is_mapped(it: &Finished) -> bool {
    let described = it.after.segments.iter().filter(|segment| {
        segment.filesz > 0
            && !it.before.segments.contains(segment)
            && (segment.kind == PT_DYNAMIC || follows(it.before, segment.kind))
    });
    described
        .clone()
        .all(|segment| it.after.file_offset(segment.vaddr, segment.filesz) == Some(segment.offset))
}

/// Returns true if no other segment begins at the offset of the new one. `llvm-strip` would treat the
/// first of two such segments as the parent of the other, and move both.
fn nothing_begins_with_ours(it: &Finished) -> bool {
    let mut readonly = ours(it).take(1);
    readonly.all(|load| {
        let same = |other: &&Segment| other.kind != PT_LOAD && other.offset == load.offset;
        !it.after.segments.iter().any(|other| other.filesz > 0 && same(&other))
    })
}

fn tables_are_mapped(it: &Finished) -> bool {
    let (Some(before), Some(after)) = (&it.before.dynamic, &it.after.dynamic) else {
        return it.before.dynamic.is_none() == it.after.dynamic.is_none();
    };
    let count = |tag| after.entries.iter().filter(|entry| entry.tag == tag).count();
    TABLE_TAGS.iter().all(|&tag| {
        let (old, new) = (before.value(tag), after.value(tag));
        let moved = old != new;
        let mapped = new.is_none_or(|vaddr| it.after.file_offset(vaddr, 1).is_some());
        let once = before.entries.iter().filter(|entry| entry.tag == tag).count();
        (!moved || mapped) && (count(tag) == once || new.is_none())
    })
}

fn sections_agree(it: &Finished) -> bool {
    let agrees = |image: &Image, index: usize| {
        let Some(section) = image.sections.get(index) else { return true };
        let loaded = section.flags.0 & SHF_ALLOC.0 != 0 && section.kind != SHT_NOBITS;
        !loaded
            || section.size == 0
            || image.file_offset(section.addr, section.size) == Some(section.offset)
    };
    (0..it.after.sections.len()).all(|index| agrees(&it.after, index) || !agrees(it.before, index))
}

fn no_segment_is_emptied(it: &Finished) -> bool {
    sections::emptied(it.before, &it.after.sections)
        .iter()
        .all(|load| sections::old_bytes(&it.after, load, it.after.table_end()).size == 0)
}

fn one_note(it: &Finished) -> bool {
    let Some(wanted) = &it.goal.note else { return true };
    let found = notes::resolution(&it.after);
    let read = it.view.as_ref().map(|view| view.notes.resolution.as_deref());
    match (wanted, found.as_slice()) {
        (None, []) => read == Some(None),
        (Some(wanted), [one]) => one.descriptor == wanted && read == Some(Some(wanted.as_slice())),
        _ => false,
    }
}

fn interpreter_is_right(it: &Finished) -> bool {
    let now = it.after.interpreter();
    let Some(path) = &it.goal.interpreter else {
        return it.before.interpreter().is_none() == now.is_none();
    };
    let bytes = now.and_then(|segment| it.after.bytes_at(segment.offset, segment.filesz));
    bytes.and_then(|bytes| bytes.strip_suffix(b"\0")) == Some(path)
}

/// Returns true if both this crate and the core's parser read the wanted strings.
fn strings_are_right(it: &Finished) -> bool {
    // If no string is to change, an appended copy of the table must have the original ones.
    let is_copied = it.before.dynamic.is_some() && !it.content.appended.is_empty();
    let copied = || is_copied.then(|| Names::of(it.before).ok()).flatten();
    let Some(names) = it.goal.names.clone().or_else(copied) else { return true };
    let Ok(mut now) = Names::of(&it.after) else { return false };
    // The strings are compared; a finished file has no indexes of the original.
    for (now, wanted) in now.needed.iter_mut().zip(&names.needed) {
        now.from = wanted.from;
    }
    let Some(dynamic) = it.view.as_ref().and_then(|view| view.dynamic.as_ref()) else {
        return false;
    };
    now == names
        && dynamic.rpath == names.rpath
        && dynamic.runpath == names.runpath
        && dynamic.audit == names.audit
        && dynamic.soname == names.soname
}
