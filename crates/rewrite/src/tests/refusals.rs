//! Tests of refused files and edits, and of the reasons.

use becalm_core::edit::{Edit, RunPathKind};
use object::elf::{DT_FLAGS_1, DT_SONAME};

use super::{edited, note, read_image, run_path};
use crate::tests::builder::{Builder, FORMATS};
use crate::{RewriteError, State, edit, state, undo};

fn refusal(image: &[u8], step: Edit) -> RewriteError {
    edit(image, &[step]).expect_err("it is refused")
}

#[test]
fn the_loader_itself() {
    let texts = vec![(DT_SONAME, "ld-linux-x86-64.so.2")];
    let image = Builder { texts, ..Builder::library(FORMATS[0]) }.build();
    assert_eq!(refusal(&image, note("x")), RewriteError::Loader);
}

#[test]
fn dynamic_edits_of_a_static_pie_but_not_its_note() {
    let numbers = vec![(DT_FLAGS_1, becalm_core::elf::DF_1_PIE)];
    let image = Builder { numbers, ..Builder::library(FORMATS[0]) }.build();
    assert_eq!(refusal(&image, run_path(RunPathKind::Keep, "/x")), RewriteError::StaticPie);
    edited(&image, &[note("x")]);
}

#[test]
fn a_segment_that_no_loader_maps() {
    let mut image = Builder::library(FORMATS[0]).build();
    let is_load = |&at: &usize| image[at..at + 4] == object::elf::PT_LOAD.0.to_le_bytes();
    let load = (64..).step_by(56).find(is_load).expect("it has one");
    // p_vaddr.
    image[load + 16] = 15;
    let refused = refusal(&image, note("x"));
    assert!(matches!(refused, RewriteError::Malformed(why) if why.contains("disagree")));
}

#[test]
fn a_dynamic_section_that_no_loader_finds() {
    let original = Builder::library(FORMATS[0]).build();
    let found = read_image(&original);
    let dynamic = found.segments.iter().position(|it| it.kind == object::elf::PT_DYNAMIC);
    let at = 64 + 56 * dynamic.expect("it has one");
    // An address outside every PT_LOAD, and an address in another one.
    for vaddr in [1_u64 << 40, found.dynamic.expect("it has one").vaddr + 16] {
        let mut image = original.clone();
        image[at + 16..at + 24].copy_from_slice(&vaddr.to_le_bytes());
        let refused = refusal(&image, note("x"));
        assert!(matches!(refused, RewriteError::Malformed(why) if why.contains("mapped")));
    }
}

#[test]
fn a_payload_after_the_file() {
    let mut image = Builder::program(FORMATS[0]).build();
    let offset = image.len() as u64;
    image.extend(b"an archive that its program looks for");
    assert_eq!(refusal(&image, note("x")), RewriteError::Payload { offset });
}

/// Sets `e_shnum` and `e_shstrndx` to 0. The table stays.
fn without_section_count(format: crate::format::Format, mut image: Vec<u8>) -> Vec<u8> {
    let at = if format.is_64() { 60 } else { 48 };
    image[at..at + 4].fill(0);
    image
}

#[test]
fn section_headers_that_the_header_no_longer_counts_are_not_a_payload() {
    for format in FORMATS {
        let image = without_section_count(format, Builder::program(format).build());
        let done = edited(&image, &[note("x")]);
        assert_eq!(undo(done.as_slice()).expect("a patch").applied_to(&done), image);
    }
}

#[test]
fn a_payload_after_section_headers_that_the_header_no_longer_counts() {
    let image = without_section_count(FORMATS[0], Builder::program(FORMATS[0]).build());
    let offset = image.len() as u64;
    let payload = [image.clone(), b"an archive that its program looks for".to_vec()].concat();
    assert_eq!(refusal(&payload, note("x")), RewriteError::Unnamed { offset });
    // `e_shoff` is 0 as well, so nothing names the table.
    let mut removed = image;
    removed[40..48].fill(0);
    assert!(matches!(refusal(&removed, note("x")), RewriteError::Unnamed { .. }));
}

#[test]
fn padding_after_the_file_is_not_a_payload() {
    let mut image = Builder::program(FORMATS[0]).build();
    image.extend([0; 77]);
    let done = edited(&image, &[note("x")]);
    assert_eq!(undo(done.as_slice()).expect("a patch").applied_to(&done), image);
}

#[test]
fn a_truncated_file_at_every_length() {
    let image = Builder::program(FORMATS[0]).build();
    for length in 0..image.len() {
        edit(&image[..length], &[note("x")]).expect_err("it is refused");
    }
}

#[test]
fn debug_information_alone() {
    let mut image = Builder::program(FORMATS[0]).build();
    let found = read_image(&image);
    let named = |name: &[u8]| {
        let index = found.sections.iter().position(|it| found.section_name(it) == name);
        found.section_table().start as usize + 64 * index.expect("the section")
    };
    let text = named(b".text");
    image[text + 4..text + 8].copy_from_slice(&8_u32.to_le_bytes());
    assert_eq!(refusal(&image, note("x")), RewriteError::DebugInformation);
}

#[test]
fn a_plt_without_bytes_is_not_debug_information() {
    for format in FORMATS {
        let classic = Builder { bss_plt: true, machine: 20, ..Builder::library(format) };
        edited(&classic.build(), &[note("x")]);
    }
}

#[test]
fn overlapping_segments() {
    let mut image = Builder::program(FORMATS[0]).build();
    let found = read_image(&image);
    let last = found.segments.iter().rposition(|it| it.kind == object::elf::PT_LOAD);
    let at = 64 + 56 * last.expect("a load") + 16;
    image[at..at + 8].copy_from_slice(&8_u64.to_le_bytes());
    assert_eq!(refusal(&image, note("x")), RewriteError::Overlapping);
}

#[test]
fn strings_that_no_file_can_contain() {
    let image = Builder::program(FORMATS[0]).build();
    for step in [
        Edit::AddNeeded("".into()),
        Edit::AddNeeded("a\0b".into()),
        Edit::Soname("".into()),
        run_path(RunPathKind::Keep, "/a\0/b"),
        Edit::Interpreter("/x".repeat(2048).into()),
    ] {
        assert!(matches!(refusal(&image, step), RewriteError::BadString(_)));
    }
}

#[test]
fn an_interpreter_of_a_library() {
    let image = Builder::library(FORMATS[0]).build();
    assert_eq!(refusal(&image, Edit::Interpreter("/ld".into())), RewriteError::NoInterpreter);
}

#[test]
fn an_address_space_that_is_full() {
    let full = Builder { base: 0xfffe_0000, bss: 0xf000, ..Builder::library(FORMATS[2]) };
    let image = full.build();
    assert!(edit(image.as_slice(), &[note("x")]).is_err());
}

#[test]
fn nothing_to_undo() {
    let image = Builder::program(FORMATS[0]).build();
    assert_eq!(undo(image.as_slice()), Err(RewriteError::NothingToUndo));
    assert_eq!(state(image.as_slice()), Ok(State::Untouched));
}

#[test]
fn a_file_changed_since_in_any_watched_range() {
    let original = Builder::program(FORMATS[0]).build();
    let image = edited(&original, &[note("x"), run_path(RunPathKind::Keep, "/x")]);
    let watched =
        (0..image.len()).filter(|&at| at < 4096.min(original.len()) || at >= original.len());
    let segment = read_image(&image);
    let segment = segment.loads().last().expect("our segment").offset as usize;
    for at in watched.filter(|at| !(original.len()..segment).contains(at)) {
        let mut changed = image.clone();
        changed[at] ^= 0xff;
        assert_eq!(state(changed.as_slice()), Ok(State::ChangedSince), "{at}");
        assert_eq!(undo(changed.as_slice()), Err(RewriteError::ChangedSince), "{at}");
    }
}
