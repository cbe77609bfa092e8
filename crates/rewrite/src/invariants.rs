//! The rules that every finished image must keep. They are checked before the image is written, so
//! that a bug of this crate cannot produce a file that does not start.
//!
//! A rule checks only the bytes that the edit made or changed. An original may break it elsewhere.

use becalm_core::elf::{self, ObjectView};
use becalm_core::patch::Write;
use object::ReadRef;
use object::elf::{PT_DYNAMIC, PT_INTERP, PT_LOAD, PT_PHDR, SHF_ALLOC, SHT_NOBITS};

use crate::RewriteError;
use crate::format::Segment;
use crate::goal::{Goal, Names};
use crate::image::{Image, bytes_at};
use crate::layout::{TABLE_TAGS, follows};
use crate::notes;
use crate::overlay::Overlay;
use crate::record::{Content, LEADER_SIZE};
use crate::sections;

/// The name of a rule, and its check.
type Rule<D> = (&'static str, fn(&Finished<'_, D>) -> bool);

/// The finished image and the original.
struct Finished<'a, D> {
    before: &'a Image,
    after: Image,
    data: D,
    content: &'a Content,
    goal: &'a Goal,
    view: Option<ObjectView>,
}

/// Checks the finished image.
///
/// # Errors
/// Returns [`RewriteError::Invariant`] with the first broken rule.
pub(crate) fn check<'data, R: ReadRef<'data>>(
    before: &Image,
    original: R,
    content: &Content,
    goal: &Goal,
) -> Result<(), RewriteError> {
    let ordered = "what is written is in order and inside its bounds";
    if !writes_are_in_bounds(before, content) {
        return Err(RewriteError::Invariant(ordered));
    }
    let mut writes = content.writes.clone();
    writes.push(Write { offset: content.offset, bytes: content.appended.clone() });
    let length = content.offset + content.appended.len() as u64;
    let finished = Overlay::new(original, &writes, length);
    // If no string is to change, an appended copy of the table must have the original ones.
    let names = match (&goal.names, &before.dynamic) {
        (Some(names), _) => Some(names.clone()),
        (None, Some(_)) if !content.appended.is_empty() => Names::of(before, original).ok(),
        _ => None,
    };
    check_rules(before, &finished, content, goal, names.as_ref())
}

fn check_rules<'data, R: ReadRef<'data>>(
    before: &Image,
    data: R,
    content: &Content,
    goal: &Goal,
    names: Option<&Names>,
) -> Result<(), RewriteError> {
    let broken = |rule| RewriteError::Invariant(rule);
    let after = Image::read(data).map_err(|_| broken("its headers can be read"))?;
    // The core's parser is an independent implementation, so an error of one of them is noticed.
    let view = elf::parse(data).ok();
    let finished = Finished { before, after, data, content, goal, view };
    let rules: [Rule<R>; 13] = [
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
        ("the changed fields are the wanted ones", |it| it.goal.fields.hold(&it.after, it.data)),
    ];
    if let Some((name, _)) = rules.iter().find(|(_, holds)| !holds(&finished)) {
        return Err(broken(name));
    }
    if names.is_some_and(|names| !strings_are_right(&finished, names)) {
        return Err(broken("the dynamic strings are the wanted ones"));
    }
    Ok(())
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

fn old_segments_stay<D>(it: &Finished<D>) -> bool {
    // Code and relocations refer to these addresses, so no field may differ.
    it.before.loads().all(|load| it.after.loads().any(|other| load == other))
}

fn segments_ascend<D>(it: &Finished<D>) -> bool {
    let ends = it.after.loads().map(Segment::memory_end);
    let starts = it.after.loads().skip(1).map(|load| load.vaddr);
    ends.zip(starts).all(|(end, start)| end <= start)
}

/// Returns the `PT_LOAD`s that the edit added.
fn ours<'a, D>(it: &'a Finished<D>) -> impl Iterator<Item = &'a Segment> {
    it.after.loads().filter(|load| it.before.loads().all(|other| *load != other))
}

fn pages_agree<D>(it: &Finished<D>) -> bool {
    ours(it).all(|load| {
        load.align.is_power_of_two()
            && load.vaddr.wrapping_sub(load.offset).is_multiple_of(load.align)
    })
}

fn all_in_the_file<D>(it: &Finished<D>) -> bool {
    it.after.extent() <= it.content.offset + it.content.appended.len() as u64
}

fn table_is_mapped<D>(it: &Finished<D>) -> bool {
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
fn load_of_table(image: &Image) -> Option<&Segment> {
    image
        .loads()
        .find(|load| load.offset <= image.header.phoff && image.table_end() <= load.file_end())
}

fn described_is_mapped<D>(it: &Finished<D>) -> bool {
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
fn nothing_begins_with_ours<D>(it: &Finished<D>) -> bool {
    let mut readonly = ours(it).take(1);
    readonly.all(|load| {
        let same = |other: &&Segment| other.kind != PT_LOAD && other.offset == load.offset;
        !it.after.segments.iter().any(|other| other.filesz > 0 && same(&other))
    })
}

fn tables_are_mapped<D>(it: &Finished<D>) -> bool {
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

fn sections_agree<D>(it: &Finished<D>) -> bool {
    let agrees = |image: &Image, index: usize| {
        let Some(section) = image.sections.get(index) else { return true };
        let loaded = section.flags.0 & SHF_ALLOC.0 != 0 && section.kind != SHT_NOBITS;
        !loaded
            || section.size == 0
            || image.file_offset(section.addr, section.size) == Some(section.offset)
    };
    (0..it.after.sections.len()).all(|index| agrees(&it.after, index) || !agrees(it.before, index))
}

fn no_segment_is_emptied<D>(it: &Finished<D>) -> bool {
    sections::emptied(it.before, &it.after.sections)
        .iter()
        .all(|load| sections::old_bytes(&it.after, load, it.after.table_end()).size == 0)
}

fn one_note<'data, D: ReadRef<'data>>(it: &Finished<D>) -> bool {
    let Some(wanted) = &it.goal.note else { return true };
    let found = notes::resolution(&it.after, it.data);
    let read = it.view.as_ref().map(|view| view.notes.resolution.as_deref());
    match (wanted, found.as_slice()) {
        (None, []) => read == Some(None),
        (Some(wanted), [one]) => one.descriptor == wanted && read == Some(Some(wanted.as_slice())),
        _ => false,
    }
}

fn interpreter_is_right<'data, D: ReadRef<'data>>(it: &Finished<D>) -> bool {
    let bytes = |image: &Image| {
        let segment = image.segments.iter().find(|it| it.kind == PT_INTERP && it.filesz > 0)?;
        bytes_at(it.data, segment.offset, segment.filesz)
    };
    match &it.goal.interpreter {
        Some(path) => bytes(&it.after).and_then(|bytes| bytes.strip_suffix(b"\0")) == Some(path),
        None => it.before.interpreter().is_none() == it.after.interpreter().is_none(),
    }
}

/// Returns true if both this crate and the core's parser read the wanted strings.
fn strings_are_right<'data, D: ReadRef<'data>>(it: &Finished<D>, names: &Names) -> bool {
    let Ok(mut now) = Names::of(&it.after, it.data) else { return false };
    // The strings are compared; a finished file has no indexes of the original.
    for (now, wanted) in now.needed.iter_mut().zip(&names.needed) {
        now.from = wanted.from;
    }
    let Some(dynamic) = it.view.as_ref().and_then(|view| view.dynamic.as_ref()) else {
        return false;
    };
    now == *names
        && dynamic.rpath == names.rpath
        && dynamic.runpath == names.runpath
        && dynamic.audit == names.audit
        && dynamic.soname == names.soname
}
