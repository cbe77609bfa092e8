//! Tests of the room for further program headers.

use becalm_core::edit::Edit;
use object::elf::{PT_LOAD, PT_NOTE, PT_NULL, PT_PHDR};

use super::{edited, note, read_image, undone};
use crate::image::Image;
use crate::tests::builder::{Builder, FORMATS};

#[test]
fn an_unused_header_is_used_first() {
    // A linker for MIPS leaves one, and the bytes after the table cannot move there.
    let builder = Builder { hash: 0, interpreter: false, ..Builder::program(FORMATS[0]) };
    let mut original = builder.build();
    let found = read_image(&original);
    let table = found.segments.iter().position(|it| it.kind == PT_PHDR).expect("its own header");
    let at = 64 + 56 * table;
    original[at..at + 56].fill(0);
    let image = edited(&original, &[note("a\0=/b\0\0")]);
    let after = read_image(&image);
    assert_eq!(after.segments.len(), found.segments.len());
    assert!(after.segments.iter().all(|it| it.kind != PT_NULL));
    assert_eq!(after.loads().count(), found.loads().count() + 1);
    assert_eq!(undone(&image), original);
}

#[test]
fn a_note_shares_the_header_of_a_displaced_one_if_room_is_short() {
    let builder = Builder { hash: 0, ..Builder::library(FORMATS[0]) };
    let original = builder.build();
    let before = read_image(&original);
    let image = edited(&original, &[note("a\0=/b\0\0")]);
    let after = read_image(&image);
    let count = |image: &Image, kind| image.segments.iter().filter(|it| it.kind == kind).count();
    assert_eq!(
        count(&after, PT_NOTE) + count(&after, PT_LOAD),
        count(&before, PT_NOTE) + count(&before, PT_LOAD) + 1
    );
    assert_eq!(after.header.phoff, before.header.phoff);
}

#[test]
fn a_table_that_overlaps_another_is_not_displaced_with_it() {
    let builder = Builder { note: false, hash: 0, ..Builder::library(FORMATS[0]) };
    let mut original = builder.build();
    let found = read_image(&original);
    let named = |name: &[u8]| {
        let index = found.sections.iter().position(|it| found.section_name(it) == name);
        let index = index.expect("it has one");
        (&found.sections[index], found.section_table().start as usize + 64 * index)
    };
    // Without the code between them, the strings are close enough to the table to be displaced.
    let (text, header) = named(b".text");
    original[text.offset as usize..][..text.size as usize].fill(0);
    original[header + 4..header + 8].fill(0);
    let edits = [note("a\0=/b\0\0"), Edit::Soname("libanother.so.7".into())];
    let moves =
        |image: &[u8]| read_image(&edited(image, &edits)).header.phoff != found.header.phoff;
    assert!(!moves(&original));
    // In one block, the old strings would be at the position of the longer new ones.
    let (strings, header) = named(b".dynstr");
    let mut overlapping = original.clone();
    overlapping[header + 32..header + 40].copy_from_slice(&(strings.size + 12).to_le_bytes());
    assert!(moves(&overlapping));
    assert_eq!(undone(&edited(&overlapping, &edits)), overlapping);
}

#[test]
fn a_header_that_never_described_the_table_does_not_refuse_an_edit() {
    let mut original = Builder::program(FORMATS[0]).build();
    let found = read_image(&original);
    let table = found.segments.iter().position(|it| it.kind == PT_PHDR).expect("its own header");
    let at = 64 + 56 * table;
    // All but its type.
    original[at + 4..at + 56].fill(0);
    let image = edited(&original, &[note("a\0=/b\0\0")]);
    assert!(read_image(&image).segments.len() > found.segments.len());
    assert_eq!(undone(&image), original);
}
