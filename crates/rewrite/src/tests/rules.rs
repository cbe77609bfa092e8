//! Tests of the rules of a finished image. Each test breaks one rule.

use becalm_core::patch::Write;

use super::{every_edit, read_image};
use crate::RewriteError;
use crate::assemble::assemble;
use crate::format::Segment;
use crate::goal::Goal;
use crate::image::Image;
use crate::invariants::check;
use crate::record::Content;
use crate::tests::builder::{Builder, FORMATS};

struct Case {
    original: Vec<u8>,
    image: Image<'static>,
    goal: Goal,
    content: Content,
}

fn case() -> Case {
    case_of(&Builder::program(FORMATS[0]))
}

fn case_of(builder: &Builder) -> Case {
    let original = builder.build();
    let image = read_image(&original);
    let mut goal = Goal::default();
    for step in every_edit() {
        goal.apply(&step, &image).expect("it applies");
    }
    let content = assemble(&image, &goal, image.length).expect("it works");
    Case { original, image, goal, content }
}

impl Case {
    fn broken(&self) -> Option<&'static str> {
        match check(&self.image, &self.content, &self.goal) {
            Ok(()) => None,
            Err(RewriteError::Invariant(rule)) => Some(rule),
            Err(other) => panic!("{other}"),
        }
    }

    /// Changes program headers of the finished image.
    fn segments(mut self, change: impl Fn(usize, &mut Segment)) -> Self {
        let bytes = self.finished();
        let mut segments = read_image(&bytes).segments;
        for (index, segment) in segments.iter_mut().enumerate() {
            change(index, segment);
        }
        let table: Vec<u8> =
            segments.iter().flat_map(|it| self.image.format.write(it).expect("it fits")).collect();
        let at = self.image.header.phoff;
        let write = self.content.writes.iter_mut().find(|write| write.offset == at);
        write.expect("the table is written").bytes = table;
        self
    }

    fn finished(&self) -> Vec<u8> {
        let mut writes = self.content.writes.clone();
        let appended = Write { offset: self.content.offset, bytes: self.content.appended.clone() };
        let length = appended.offset + appended.bytes.len() as u64;
        writes.push(appended);
        becalm_core::patch::Patch { writes, length }.applied_to(&self.original)
    }

    /// Replaces bytes of the finished image inside a range that the edit writes.
    fn with_bytes(mut self, offset: u64, bytes: &[u8]) -> Self {
        let length = bytes.len();
        if offset >= self.content.offset {
            let at = (offset - self.content.offset) as usize;
            self.content.appended[at..at + length].copy_from_slice(bytes);
        } else {
            let holds = |write: &&mut Write| {
                write.offset <= offset && offset < write.offset + write.bytes.len() as u64
            };
            let write = self.content.writes.iter_mut().find(holds).expect("it is written");
            let at = (offset - write.offset) as usize;
            write.bytes[at..at + length].copy_from_slice(bytes);
        }
        self
    }

    fn after(&self) -> Image<'static> {
        read_image(&self.finished())
    }
}

fn new_load(case: &Case) -> usize {
    let after = case.after();
    let last = after.segments.iter().rposition(|it| it.kind == object::elf::PT_LOAD);
    last.expect("a load")
}

#[test]
fn a_finished_image_keeps_every_rule() {
    assert_eq!(case().broken(), None);
}

#[test]
fn writes_in_order_and_in_bounds() {
    let mut it = case();
    it.content.writes.swap(0, 1);
    assert_eq!(it.broken(), Some("what is written is in order and inside its bounds"));
    let mut it = case();
    let length = it.image.length;
    it.content.writes.push(Write { offset: length - 1, bytes: vec![0; 2] });
    assert_eq!(it.broken(), Some("what is written is in order and inside its bounds"));
    let mut it = case();
    it.content.offset = it.image.length;
    assert_eq!(it.broken(), Some("what is written is in order and inside its bounds"));
}

#[test]
fn headers_that_can_be_read() {
    let it = case().with_bytes(56, &[0xff, 0xff]);
    assert_eq!(it.broken(), Some("its headers can be read"));
}

#[test]
fn old_segments_as_they_were() {
    let it = case();
    let first = it.image.segments.iter().position(|it| it.kind == object::elf::PT_LOAD);
    let it = it.segments(|index, segment| segment.memsz += u64::from(Some(index) == first));
    assert_eq!(it.broken(), Some("every old segment is as it was"));
}

#[test]
fn segments_in_ascending_order() {
    let it = case();
    let new = new_load(&it);
    let it = it.segments(|index, it| {
        if index == new {
            it.vaddr = 0x1000 + it.offset % 0x1000
        }
    });
    assert_eq!(it.broken(), Some("segments ascend and do not overlap"));
}

#[test]
fn offset_and_address_within_a_page() {
    let it = case();
    let new = new_load(&it);
    let it = it.segments(|index, segment| segment.vaddr += 4 * u64::from(index == new));
    assert_eq!(it.broken(), Some("a segment's offset and address agree within a page"));
}

#[test]
fn everything_that_the_headers_name_in_the_file() {
    let it = case();
    let new = new_load(&it);
    let it = it.segments(|index, segment| {
        segment.filesz += 0x10000 * u64::from(index == new);
        segment.memsz += 0x10000 * u64::from(index == new);
    });
    assert_eq!(it.broken(), Some("everything that the headers name is in the file"));
}

#[test]
fn the_table_mapped_at_the_address_of_pt_phdr() {
    let phdr = |segment: &Segment| segment.kind == object::elf::PT_PHDR;
    let it = case().segments(|_, segment| segment.filesz -= 56 * u64::from(phdr(segment)));
    assert_eq!(it.broken(), Some("the program header table is mapped where PT_PHDR says"));
    let it = case().segments(|_, segment| segment.vaddr += 8 * u64::from(phdr(segment)));
    assert_eq!(it.broken(), Some("the program header table is mapped where PT_PHDR says"));
}

#[test]
fn segments_mapped_at_their_addresses() {
    let it = case().segments(|_, segment| {
        segment.vaddr += 4 * u64::from(segment.kind == object::elf::PT_NOTE);
    });
    assert_eq!(it.broken(), Some("what a program header names is mapped where it says"));
}

#[test]
fn no_other_segment_at_the_start_of_the_new_one() {
    let it = case();
    let after = it.after();
    let load = after.segments[new_load(&it)];
    let it = it.segments(|_, segment| {
        if segment.kind == object::elf::PT_NOTE {
            let size = segment.file_end() - load.offset;
            (segment.offset, segment.vaddr) = (load.offset, load.vaddr);
            (segment.filesz, segment.memsz) = (size, size);
        }
    });
    assert_eq!(it.broken(), Some("no other segment begins with a segment of ours"));
}

fn entry_at(it: &Case, tag: object::elf::DynamicTag) -> u64 {
    let dynamic = it.after().dynamic.expect("a dynamic section");
    let index = dynamic.entries.iter().position(|entry| entry.tag == tag).expect("the entry");
    dynamic.offset + index as u64 * 16 + 8
}

#[test]
fn dynamic_entries_with_mapped_addresses() {
    let it = case();
    let at = entry_at(&it, object::elf::DT_STRTAB);
    let it = it.with_bytes(at, &0x7000_0000_u64.to_le_bytes());
    assert_eq!(it.broken(), Some("dynamic entries point into the file's mapped part"));
}

#[test]
fn the_wanted_dynamic_strings() {
    let it = case();
    let at = entry_at(&it, object::elf::DT_SONAME);
    let it = it.with_bytes(at, &1_u64.to_le_bytes());
    assert_eq!(it.broken(), Some("the dynamic strings are the wanted ones"));
}

#[test]
fn sections_that_agree_with_the_segments() {
    let it = case();
    let after = it.after();
    let last = after.section_table().start + (after.sections.len() as u64 - 1) * 64;
    let it = it.with_bytes(last + 16, &0x99_u64.to_le_bytes());
    assert_eq!(it.broken(), Some("the addresses and offsets of sections agree with the segments"));
}

#[test]
fn a_segment_whose_only_section_moves_still_has_a_section() {
    let program = Builder::program(FORMATS[0]);
    let it = case_of(&Builder { apart: true, spare: 0, ..program });
    assert_eq!(it.broken(), None);
    let after = it.after();
    let is_old = |section: &&crate::format::Section| after.section_name(section) == b".becalm.old";
    let old: Vec<u64> = after.sections.iter().filter(is_old).map(|it| it.addr).collect();
    // The notes after the headers have moved as well.
    let loads: Vec<u64> = it.image.loads().map(|load| load.vaddr).collect();
    assert_eq!(old, [after.table_end(), loads[1], loads[3]]);
    // Without the first of them `strip` would write a file that does not load.
    let index = after.sections.iter().position(|it| after.section_name(it) == b".becalm.old");
    let at = after.section_table().start + index.expect("it has one") as u64 * 64;
    let it = it.with_bytes(at + 32, &0_u64.to_le_bytes());
    assert_eq!(it.broken(), Some("every segment that had a section has one"));
}

#[test]
fn only_the_wanted_note() {
    let it = case();
    let found = crate::notes::resolution(&it.after())[0].offset;
    let it = it.with_bytes(found + 20, b"X");
    assert_eq!(it.broken(), Some("the resolution note is the wanted one, and the only one"));
}

#[test]
fn the_wanted_interpreter() {
    let mut it = case();
    it.goal.interpreter = Some("/another".into());
    assert_eq!(it.broken(), Some("the interpreter is the wanted one"));
}
