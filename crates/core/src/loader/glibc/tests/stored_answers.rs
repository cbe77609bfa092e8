//! Tests of a loader that reads resolution notes: their place in the search order, and the plain
//! search after a bad note. Package caches are tested with the `ldcache` strategy.

use super::*;
use crate::elf::ObjectView;
use crate::facts::Readers;

fn reading() -> Environment {
    let reads = Readers { note: true, stores: vec!["/s".into()], ..Readers::default() };
    Environment { reads, ..Environment::default() }
}

fn noted(object: ObjectBuilder, note: &str) -> ObjectView {
    let mut view: ObjectView = object.into();
    view.notes.resolution = Some(note.as_bytes().to_vec());
    view
}

/// Formats the probes with their sources, as `note:open:hit /path`.
fn sources(fs: &MemFs, environment: &Environment) -> Vec<String> {
    let line = |p: crate::probe::Probe| {
        format!("{}:{}:{} {}", name(&p.source), name(&p.call), name(&p.outcome), p.path)
    };
    walk(fs, facts(41), environment).probes().map(line).collect()
}

fn libraries() -> MemFs {
    let library = || ObjectBuilder::library("liba.so");
    base().object("/s/a/liba.so", library()).object("/s/b/liba.so", library()).dir("/s/n")
}

#[test]
fn a_note_is_read_after_library_path_and_before_runpath() {
    let object = noted(program().needed("liba.so").runpath("/s/a"), "liba.so\0=/s/b/liba.so\0\0");
    let fs = libraries().object("/bin/prog", object);
    assert_eq!(sources(&fs, &reading()), ["note:open:hit /s/b/liba.so"]);
    assert_eq!(sources(&fs, &Environment::default()), ["runpath:open:hit /s/a/liba.so"]);
    let with_path = Environment { library_path: Some("/s/a".into()), ..reading() };
    assert_eq!(sources(&fs, &with_path), ["library-path:open:hit /s/a/liba.so"]);
}

#[test]
fn a_note_is_read_in_the_place_of_rpath() {
    let object = noted(program().needed("liba.so").rpath("/s/n"), "liba.so\0=/s/b/liba.so\0\0");
    let fs = libraries().object("/bin/prog", object);
    let with_path = Environment { library_path: Some("/s/a".into()), ..reading() };
    assert_eq!(sources(&fs, &with_path), ["note:open:hit /s/b/liba.so"]);
}

#[test]
fn hints_are_searched_in_list_order_and_the_plain_search_follows_a_miss() {
    let note = "liba.so\0?/s/n:=/gone/liba.so\0\0";
    let object = noted(program().needed("liba.so").runpath("/s/n:/s/a"), note);
    let fs = libraries().object("/bin/prog", object);
    assert_eq!(
        sources(&fs, &reading()),
        [
            "note:open:miss /s/n/liba.so",
            "note:stat:hit /s/n/",
            "note:open:miss /gone/liba.so",
            "runpath:open:miss /s/n/liba.so",
            "runpath:open:hit /s/a/liba.so"
        ]
    );
}

#[test]
fn nothing_in_a_note_stops_the_plain_search() {
    for note in [
        "liba.so\0=/s/a/junk\0\0",
        "liba.so\0=relative\0\0",
        "liba.so\0=$PLATFORM/x\0\0",
        "liba.so\0=/s/a\0\0",
        "liba.so\0\0\0",
        "liba.so\0=/s/b/liba.so\0",
        "liba.so\0x\0\0",
        "libb.so\0=/s/b/liba.so\0\0",
        "",
    ] {
        let object = noted(program().needed("liba.so").runpath("/s/a"), note);
        let fs = libraries().file("/s/a/junk", "no object").object("/bin/prog", object);
        assert_eq!(paths(&walk(&fs, facts(41), &reading())), ["/s/a/liba.so"], "{note:?}");
    }
}

#[test]
fn a_loaded_object_answers_before_any_note() {
    let object = noted(program().needed("liba.so").needed("libq.so").runpath("/s/a"), "\0");
    let library = ObjectBuilder::library("libq.so").needed("liba.so").runpath("/s/a");
    let fs = libraries()
        .object("/s/a/libq.so", noted(library, "liba.so\0=/s/b/liba.so\0\0"))
        .object("/bin/prog", object);
    assert_eq!(paths(&walk(&fs, facts(41), &reading())), ["/s/a/liba.so", "/s/a/libq.so"]);
}

#[test]
fn origin_in_a_note_is_that_of_the_notes_object() {
    let library = ObjectBuilder::library("libq.so").needed("liba.so").runpath("$ORIGIN");
    let fs = libraries()
        .object("/s/b/libq.so", noted(library, "liba.so\0=$ORIGIN/liba.so\0\0"))
        .object("/bin/prog", program().needed("libq.so").runpath("/s/b"));
    assert_eq!(
        sources(&fs, &reading()),
        ["runpath:open:hit /s/b/libq.so", "note:open:hit /s/b/liba.so"]
    );
}

#[test]
fn secure_mode_ignores_a_note_outside_a_store() {
    let object = noted(program().needed("liba.so").runpath("/s/a"), "liba.so\0=/s/b/liba.so\0\0");
    let fs = libraries().object("/bin/prog", object);
    let secure = Environment { secure: true, ..reading() };
    assert_eq!(paths(&walk(&fs, facts(41), &secure)), ["/s/a/liba.so"]);
}

/// Makes a program with this run path and note, and a mutable directory `/m`.
fn noted_program(run_path: &str, note: &str) -> MemFs {
    let object = noted(program().needed("liba.so").runpath(run_path), note);
    libraries().dir("/m").object("/bin/prog", object)
}

fn loaded_from(fs: &MemFs) -> String {
    paths(&walk(fs, facts(41), &reading())).concat()
}

#[test]
fn a_note_that_leaves_out_a_mutable_directory_is_not_used() {
    let exact = "liba.so\0=/s/b/liba.so\0\0";
    for (run_path, note) in [
        ("/m:/s/b", exact),
        ("/s/n:/m:/s/b", exact),
        ("/m/:/s/b/", "liba.so\0=/s/b//liba.so\0\0"),
        (":/s/b", exact),
        ("m:/s/b", exact),
        ("$ORIGIN/../m:/s/b", exact),
        ("/m:/n:/s/b", "liba.so\0?/m:=/s/b/liba.so\0\0"),
        ("/n:/m:/s/b", "liba.so\0?/m:=/s/b/liba.so\0\0"),
        ("/s/../m:/s/b", exact),
        ("/m/x:/m:/s/b", "liba.so\0=/m/x/liba.so:=/s/b/liba.so\0\0"),
    ] {
        let fs = noted_program(run_path, note);
        let sources = sources(&fs, &reading());
        assert!(
            sources.iter().all(|line| !line.starts_with("note:open:hit")),
            "{run_path}: {sources:?}"
        );
        assert_eq!(sources.last().unwrap().replace("//", "/"), "runpath:open:hit /s/b/liba.so");
    }
}

#[test]
fn a_note_that_lists_each_mutable_directory_is_used() {
    for (run_path, note) in [
        ("/m:/s/b", "liba.so\0?/m:=/s/b/liba.so\0\0"),
        ("/m/:/s/b", "liba.so\0?/m:=/s/b/liba.so\0\0"),
        ("/s/b:/m", "liba.so\0=/s/b/liba.so\0\0"),
        ("/s/n:/s/b", "liba.so\0=/s/b/liba.so\0\0"),
        ("/n:/m:/s/b", "liba.so\0?/n:?/m:=/s/b/liba.so\0\0"),
        ("/m:/s/b:/n:/m", "liba.so\0?/m:=/s/b/liba.so\0\0"),
        (":/s/b", "liba.so\0?:=/s/b/liba.so\0\0"),
        ("/s/n:/m:/s/b", "liba.so\0?/s/n:?/m:=/s/b/liba.so\0\0"),
    ] {
        let fs = noted_program(run_path, note);
        let sources = sources(&fs, &reading());
        assert_eq!(
            sources.last().unwrap(),
            "note:open:hit /s/b/liba.so",
            "{run_path}: {sources:?}"
        );
        assert_eq!(loaded_from(&fs), "/s/b/liba.so");
    }
}

#[test]
fn a_library_added_after_the_note_is_found_by_the_plain_search() {
    let fs = noted_program("/m:/s/b", "liba.so\0=/s/b/liba.so\0\0");
    assert_eq!(loaded_from(&fs), "/s/b/liba.so");
    let fs = fs.object("/m/liba.so", ObjectBuilder::library("liba.so"));
    assert_eq!(loaded_from(&fs), "/m/liba.so");
}
