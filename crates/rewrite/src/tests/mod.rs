//! Tests of edits of small images of every class and byte order.

pub(crate) mod builder;
mod crash;
mod properties;
mod refusals;
mod rules;
mod slots;

use becalm_core::edit::{Edit, RunPathKind};
use becalm_core::elf::{self, ObjectView};
use bstr::ByteSlice;
use object::elf::{DT_RPATH, DT_RUNPATH};

use self::builder::{Builder, FORMATS};
use crate::image::{File, Image};
use crate::{RewriteError, State, edit, state, undo};

pub(super) fn note(text: &str) -> Edit {
    Edit::ResolutionNote(Some(text.as_bytes().to_vec()))
}

pub(super) fn run_path(kind: RunPathKind, value: &str) -> Edit {
    Edit::RunPath { kind, value: Some(value.into()) }
}

pub(super) fn replace(from: &str, to: &str) -> Edit {
    Edit::ReplaceNeeded { from: from.into(), to: to.into() }
}

pub(super) fn edited(image: &[u8], edits: &[Edit]) -> Vec<u8> {
    edit(image, edits).expect("it can be edited").patch.expect("a change").applied_to(image)
}

pub(super) fn undone(image: &[u8]) -> Vec<u8> {
    undo(image).expect("it can be undone").applied_to(image)
}

pub(super) fn view(image: &[u8]) -> ObjectView {
    elf::parse(image).expect("it parses")
}

fn variants() -> Vec<Builder> {
    let mut all = Vec::new();
    for format in FORMATS {
        let program = Builder::program(format);
        let mut fixed = program.clone();
        (fixed.kind, fixed.base) = (2, 0x40_0000);
        let mut mips = Builder::library(format);
        mips.machine = 8;
        all.extend([Builder::library(format), fixed, mips]);
        for (note, hash, sections, spare) in
            [(false, 0, true, 4), (false, 400, true, 0), (true, 40, false, 0), (true, 0, true, 1)]
        {
            all.push(Builder { note, hash, sections, spare, ..program.clone() });
        }
        all.push(Builder { apart: true, spare: 0, ..program.clone() });
        all.push(program);
    }
    all
}

fn every_edit() -> Vec<Edit> {
    vec![
        note("libone.so.1\0=/store/one/lib/libone.so.1\0\0"),
        run_path(RunPathKind::Runpath, "/store/one/lib:/store/two/lib"),
        replace("libone.so.1", "/store/one/lib/libone.so.1"),
        Edit::AddNeeded("libmore.so.3".into()),
        Edit::Audit(Some("/store/audit.so".into())),
        Edit::Soname("libself.so.2".into()),
    ]
}

#[test]
fn every_edit_is_made_and_undone_in_every_format() {
    for builder in variants() {
        let original = builder.build();
        for step in every_edit() {
            let image = edited(&original, std::slice::from_ref(&step));
            assert_eq!(undone(&image), original, "{builder:?} {step:?}");
            assert_eq!(edit(image.as_slice(), &[step]).map(|it| it.patch), Ok(None));
        }
        let image = edited(&original, &every_edit());
        let view = view(&image);
        let dynamic = view.dynamic.clone().expect("a dynamic section");
        assert_eq!(dynamic.runpath, Some("/store/one/lib:/store/two/lib".into()));
        assert_eq!(dynamic.audit, Some("/store/audit.so".into()));
        assert_eq!(dynamic.soname, Some("libself.so.2".into()));
        let needed: Vec<_> = view.needed().collect();
        assert_eq!(needed, ["libmore.so.3", "/store/one/lib/libone.so.1", "libc.so.6"]);
        assert!(view.notes.resolution.is_some() && (!builder.note || view.build_id.is_some()));
        assert_eq!(undone(&image), original);
    }
}

#[test]
fn the_table_keeps_its_offset_if_notes_can_be_displaced() {
    for format in FORMATS {
        let original = Builder::library(format).build();
        let done = edit(original.as_slice(), &[note("a\0=/b\0\0")]).expect("it can be edited");
        assert_eq!(done.warning, None);
    }
}

#[test]
fn a_moved_table_gives_a_warning() {
    let format = FORMATS[0];
    let bare = Builder { note: false, sections: false, hash: 0, ..Builder::library(format) };
    let original = bare.build();
    let done = edit(original.as_slice(), &[note("a\0=/b\0\0")]).expect("it can be edited");
    assert_eq!(done.warning, Some(crate::TABLE_MOVED));
}

#[test]
fn an_edit_of_an_edited_file_replaces_the_appended_segment() {
    for format in FORMATS {
        let original = Builder::program(format).build();
        let first = edited(&original, &[note("a\0=/b\0\0")]);
        let path = run_path(RunPathKind::Keep, "/x");
        let both = edited(&first, std::slice::from_ref(&path));
        let at_once = edited(&original, &[note("a\0=/b\0\0"), path]);
        assert_eq!(both, at_once);
        assert_eq!(undone(&both), original);
        assert_eq!(edited(&both, &[Edit::ResolutionNote(None), no_run_path()]), original);
    }
}

fn no_run_path() -> Edit {
    Edit::RunPath { kind: RunPathKind::Keep, value: None }
}

#[test]
fn the_kind_of_a_run_path_is_kept_or_chosen() {
    let with = |texts: &[(_, &'static str)]| {
        let texts = texts.to_vec();
        Builder { texts, ..Builder::program(FORMATS[0]) }.build()
    };
    let keep = |image: &[u8]| {
        let dynamic = view(&edited(image, &[run_path(RunPathKind::Keep, "/new")])).dynamic;
        let dynamic = dynamic.expect("a dynamic section");
        (dynamic.rpath.is_some(), dynamic.runpath.is_some())
    };
    assert_eq!(keep(&with(&[])), (false, true));
    assert_eq!(keep(&with(&[(DT_RPATH, "/a")])), (true, false));
    assert_eq!(keep(&with(&[(DT_RUNPATH, "/a")])), (false, true));
    assert_eq!(keep(&with(&[(DT_RPATH, "/a"), (DT_RUNPATH, "/a")])), (false, true));
    let image = edited(&with(&[(DT_RPATH, "/a")]), &[run_path(RunPathKind::Runpath, "/a")]);
    let dynamic = view(&image).dynamic.expect("a dynamic section");
    assert_eq!((dynamic.rpath, dynamic.runpath), (None, Some("/a".into())));
}

#[test]
fn versions_are_changed_with_a_replaced_needed_string() {
    for format in FORMATS {
        let original = Builder::program(format).build();
        let image = edited(&original, &[replace("libc.so.6", "/store/libc.so.6")]);
        assert_eq!(version_files(&image), ["libone.so.1", "/store/libc.so.6"]);
    }
}

#[test]
fn versions_of_a_removed_needed_string_are_needed_from_another_file() {
    for format in FORMATS {
        let original = Builder::program(format).build();
        let image = edited(&original, &[Edit::RemoveNeeded("libone.so.1".into())]);
        assert_eq!(version_files(&image), ["libc.so.6", "libc.so.6"]);
        assert_eq!(undone(&image), original);
        let bare = Builder { needed: vec!["liba.so"], ..Builder::program(format) };
        assert_eq!(
            edit(bare.build().as_slice(), &[Edit::RemoveNeeded("liba.so".into())]),
            Err(RewriteError::VersionsNeeded("liba.so".into())),
            "readelf would miss the file that these versions come from"
        );
    }
}

/// Reads an image of a copy that is never freed.
pub(crate) fn read_image(bytes: &[u8]) -> Image<'static> {
    let bytes: &'static [u8] = bytes.to_vec().leak();
    Image::read(Box::leak(Box::new(File::new(bytes)))).expect("it can be read")
}

fn version_files(image: &[u8]) -> Vec<String> {
    crate::versions::names(&read_image(image)).expect("its versions can be read")
}

#[test]
fn a_foreign_note_is_hidden_and_restored() {
    for format in FORMATS {
        let plain = Builder::program(format).build();
        // Without becalm's record the note is like one of another tool.
        let ours = edited(&plain, &[note("old\0=/old\0\0")]);
        let image = read_image(&ours);
        let mut foreign = ours[..image.extent() as usize].to_vec();
        while let Some(at) = foreign.find(b"\x7fbecalm") {
            foreign[at..at + 7].copy_from_slice(b"\x7fanothr");
        }
        let foreign = foreign.as_slice();
        assert_eq!(state(foreign), Ok(State::Untouched));
        let new = edited(foreign, &[note("new\0=/new\0\0")]);
        assert_eq!(view(&new).notes.resolution.as_deref(), Some(&b"new\0=/new\0\0"[..]));
        assert_eq!(undone(&new), foreign);
        let none = edited(foreign, &[Edit::ResolutionNote(None)]);
        assert_eq!(view(&none).notes.resolution, None);
        assert_eq!(undone(&none), foreign);
    }
}

#[test]
fn an_edit_that_changes_nothing_gives_no_patch() {
    let original = Builder::program(FORMATS[0]).build();
    for step in [
        Edit::ResolutionNote(None),
        no_run_path(),
        replace("libabsent.so", "/x"),
        Edit::AddNeeded("libc.so.6".into()),
        Edit::RemoveNeeded("libabsent.so".into()),
        Edit::Audit(None),
        Edit::Interpreter("/lib/ld.so.9".into()),
    ] {
        assert_eq!(edit(original.as_slice(), &[step]).map(|it| it.patch), Ok(None));
    }
}
