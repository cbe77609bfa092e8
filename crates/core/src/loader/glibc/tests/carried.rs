//! A loader that reads resolution notes: where it asks, and that nothing in a note stops the
//! plain search. Package caches are tested with the carrier that makes them.

use super::*;
use crate::elf::ObjectView;
use crate::facts::Readers;

fn reading() -> Environment {
    let reads = Readers { note: true, package_caches: Vec::new() };
    Environment { reads, ..Environment::default() }
}

fn noted(object: ObjectBuilder, note: &str) -> ObjectView {
    let mut view: ObjectView = object.into();
    view.notes.resolution = Some(note.as_bytes().to_vec());
    view
}

/// The probes with their sources, as `note:open:hit /path`.
fn told(fs: &MemFs, environment: &Environment) -> Vec<String> {
    let line = |p: crate::probe::Probe| {
        format!("{}:{}:{} {}", word(&p.source), word(&p.call), word(&p.outcome), p.path)
    };
    walk(fs, facts(41), environment).probes().map(line).collect()
}

fn libraries() -> MemFs {
    let library = || ObjectBuilder::library("liba.so");
    base().object("/a/liba.so", library()).object("/b/liba.so", library()).dir("/n")
}

#[test]
fn a_note_is_asked_after_library_path_and_before_runpath() {
    let object = noted(program().needed("liba.so").runpath("/a"), "liba.so\0=/b/liba.so\0\0");
    let fs = libraries().object("/bin/prog", object);
    assert_eq!(told(&fs, &reading()), ["note:open:hit /b/liba.so"]);
    assert_eq!(told(&fs, &Environment::default()), ["runpath:open:hit /a/liba.so"]);
    let with_path = Environment { library_path: Some("/a".into()), ..reading() };
    assert_eq!(told(&fs, &with_path), ["library-path:open:hit /a/liba.so"]);
}

#[test]
fn a_note_stands_in_the_place_of_rpath() {
    let object = noted(program().needed("liba.so").rpath("/n"), "liba.so\0=/b/liba.so\0\0");
    let fs = libraries().object("/bin/prog", object);
    let with_path = Environment { library_path: Some("/a".into()), ..reading() };
    assert_eq!(told(&fs, &with_path), ["note:open:hit /b/liba.so"]);
}

#[test]
fn hints_are_searched_in_their_place_and_a_miss_falls_through() {
    let note = "liba.so\0?/n:=/gone/liba.so\0\0";
    let object = noted(program().needed("liba.so").runpath("/n:/a"), note);
    let fs = libraries().object("/bin/prog", object);
    assert_eq!(
        told(&fs, &reading()),
        [
            "note:open:miss /n/liba.so",
            "note:stat:hit /n/",
            "note:open:miss /gone/liba.so",
            "runpath:open:miss /n/liba.so",
            "runpath:open:hit /a/liba.so"
        ]
    );
}

#[test]
fn nothing_in_a_note_stops_the_plain_search() {
    for note in [
        "liba.so\0=/a/junk\0\0",
        "liba.so\0=relative\0\0",
        "liba.so\0=$PLATFORM/x\0\0",
        "liba.so\0=/a\0\0",
        "liba.so\0\0\0",
        "liba.so\0=/b/liba.so\0",
        "liba.so\0x\0\0",
        "libb.so\0=/b/liba.so\0\0",
        "",
    ] {
        let object = noted(program().needed("liba.so").runpath("/a"), note);
        let fs = libraries().file("/a/junk", "no object").object("/bin/prog", object);
        assert_eq!(paths(&walk(&fs, facts(41), &reading())), ["/a/liba.so"], "{note:?}");
    }
}

#[test]
fn what_is_loaded_answers_before_any_note() {
    let object = noted(program().needed("liba.so").needed("libq.so").runpath("/a"), "\0");
    let library = ObjectBuilder::library("libq.so").needed("liba.so").runpath("/a");
    let fs = libraries()
        .object("/a/libq.so", noted(library, "liba.so\0=/b/liba.so\0\0"))
        .object("/bin/prog", object);
    assert_eq!(paths(&walk(&fs, facts(41), &reading())), ["/a/liba.so", "/a/libq.so"]);
}

#[test]
fn origin_in_a_note_is_the_objects_own() {
    let library = ObjectBuilder::library("libq.so").needed("liba.so").runpath("$ORIGIN");
    let fs = libraries()
        .object("/b/libq.so", noted(library, "liba.so\0=$ORIGIN/liba.so\0\0"))
        .object("/bin/prog", program().needed("libq.so").runpath("/b"));
    assert_eq!(told(&fs, &reading()), ["runpath:open:hit /b/libq.so", "note:open:hit /b/liba.so"]);
}

#[test]
fn secure_mode_believes_no_note_outside_a_store() {
    let object = noted(program().needed("liba.so").runpath("/a"), "liba.so\0=/b/liba.so\0\0");
    let fs = libraries().object("/bin/prog", object);
    let secure = Environment { secure: true, ..reading() };
    assert_eq!(paths(&walk(&fs, facts(41), &secure)), ["/a/liba.so"]);
}
