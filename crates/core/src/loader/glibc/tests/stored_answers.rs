//! Tests of a loader that reads resolution notes: their place in the search order, and the plain
//! search after a bad note. Package caches are tested with the `ldcache` strategy.

use super::*;
use crate::elf::ObjectView;
use crate::facts::Readers;

fn reading() -> Environment {
    let reads = Readers { note: true, ..Readers::default() };
    Environment { reads, ..Environment::default() }
}

/// Adds an unmarked note.
fn unmarked(object: ObjectBuilder, note: &str) -> ObjectView {
    let mut view: ObjectView = object.into();
    view.notes.resolution = Some(note.as_bytes().to_vec());
    view
}

/// Adds a complete note with these records.
fn noted(object: ObjectBuilder, records: &str) -> ObjectView {
    unmarked(object, &format!("/complete/1\0?\0{records}"))
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

const EXACT: &str = "liba.so\0=/s/b/liba.so\0\0";

#[test]
fn a_note_is_read_after_library_path_and_before_runpath() {
    let object = noted(program().needed("liba.so").runpath("/s/a:/s/b"), EXACT);
    let fs = libraries().object("/bin/prog", object);
    assert_eq!(sources(&fs, &reading()), ["note:open:hit /s/b/liba.so"]);
    assert_eq!(sources(&fs, &Environment::default()), ["runpath:open:hit /s/a/liba.so"]);
    let with_path = Environment { library_path: Some("/s/a".into()), ..reading() };
    assert_eq!(sources(&fs, &with_path), ["library-path:open:hit /s/a/liba.so"]);
}

#[test]
fn a_note_is_read_in_the_place_of_rpath() {
    let object = noted(program().needed("liba.so").rpath("/s/n:/s/b"), EXACT);
    let fs = libraries().object("/bin/prog", object);
    let with_path = Environment { library_path: Some("/s/a".into()), ..reading() };
    assert_eq!(sources(&fs, &with_path), ["note:open:hit /s/b/liba.so"]);
}

#[test]
fn hints_are_searched_in_list_order_and_the_plain_search_follows_a_miss() {
    let note = "liba.so\0?/s/n:=/gone/liba.so\0\0";
    let object = noted(program().needed("liba.so").runpath("/s/n:/gone:/s/a"), note);
    let fs = libraries().object("/bin/prog", object);
    assert_eq!(
        sources(&fs, &reading()),
        [
            "note:open:miss /s/n/liba.so",
            "note:stat:hit /s/n/",
            "note:open:miss /gone/liba.so",
            "runpath:open:miss /s/n/liba.so",
            "runpath:open:miss /gone/liba.so",
            "runpath:stat:miss /gone/",
            "runpath:open:hit /s/a/liba.so"
        ]
    );
}

#[test]
fn nothing_in_a_note_stops_the_plain_search() {
    for note in [
        "liba.so\0=/s/junk/liba.so\0\0",
        "liba.so\0=relative\0\0",
        "liba.so\0=$PLATFORM/x\0\0",
        "liba.so\0=/s/a\0\0",
        "liba.so\0\0\0",
        "liba.so\0=/s/b/liba.so\0",
        "liba.so\0x\0\0",
        "libb.so\0=/s/b/liba.so\0\0",
        "libb.so\0\0liba.so\0=/s/b/liba.so\0\0",
        "",
    ] {
        let object = noted(program().needed("liba.so").runpath("/s/a:/s/b:/s/junk"), note);
        let fs = libraries().file("/s/junk/liba.so", "no object").object("/bin/prog", object);
        assert_eq!(paths(&walk(&fs, facts(41), &reading())), ["/s/a/liba.so"], "{note:?}");
    }
}

#[test]
fn notes_without_the_mark_of_this_version_are_ignored() {
    for note in [EXACT, "/complete/2\0?\0liba.so\0=/s/b/liba.so\0\0"] {
        let object = unmarked(program().needed("liba.so").runpath("/s/a:/s/b"), note);
        let fs = libraries().object("/bin/prog", object);
        assert_eq!(sources(&fs, &reading()), ["runpath:open:hit /s/a/liba.so"]);
    }
}

#[test]
fn a_list_ends_at_what_is_not_in_the_run_path() {
    for list in [
        "=/s/c/liba.so:=/s/b/liba.so",
        "?/s/c:=/s/b/liba.so",
        "=/s/b/libx.so:=/s/b/liba.so",
        "=/s/b/xliba.so:=/s/b/liba.so",
        "?:=/s/b/liba.so",
        "=liba.so:=/s/b/liba.so",
    ] {
        let object = program().needed("liba.so").runpath("/s/a:/s/b");
        let object = noted(object, &format!("liba.so\0{list}\0\0"));
        let fs = libraries().object("/s/c/liba.so", ObjectBuilder::library("liba.so"));
        let fs = fs.object("/bin/prog", object);
        assert_eq!(sources(&fs, &reading()), ["runpath:open:hit /s/a/liba.so"], "{list}");
    }
}

#[test]
fn slashes_at_the_end_of_a_directory_do_not_count() {
    for (run_path, list, path) in [
        ("/s/n:/s/b/", "=/s/b/liba.so", "/s/b/liba.so"),
        ("/s/n:/s/b", "=/s/b//liba.so", "/s/b//liba.so"),
        ("/s/n:/s/b/", "?/s/b", "/s/b/liba.so"),
        ("/s/n:/s/b", "?/s/b/", "/s/b/liba.so"),
        ("/s/n:/", "?/:?/s/b", "/liba.so"),
    ] {
        let object = program().needed("liba.so").runpath(run_path);
        let object = noted(object, &format!("liba.so\0{list}\0\0"));
        let fs = libraries().object("/liba.so", ObjectBuilder::library("liba.so"));
        let fs = fs.object("/bin/prog", object);
        assert_eq!(sources(&fs, &reading()), [format!("note:open:hit {path}")], "{list}");
    }
}

#[test]
fn a_loaded_object_answers_before_any_note() {
    let object = noted(program().needed("liba.so").needed("libq.so").runpath("/s/a"), "\0");
    let library = ObjectBuilder::library("libq.so").needed("liba.so").runpath("/s/a:/s/b");
    let fs = libraries().object("/s/a/libq.so", noted(library, EXACT)).object("/bin/prog", object);
    assert_eq!(paths(&walk(&fs, facts(41), &reading())), ["/s/a/liba.so", "/s/a/libq.so"]);
}

#[test]
fn origin_in_a_note_is_that_of_the_notes_object() {
    let library = ObjectBuilder::library("libq.so").needed("liba.so").runpath("/s/n:$ORIGIN");
    let fs = libraries()
        .object("/s/b/libq.so", noted(library, "liba.so\0=$ORIGIN/liba.so\0\0"))
        .object("/bin/prog", program().needed("libq.so").runpath("/s/b"));
    assert_eq!(
        sources(&fs, &reading()),
        ["runpath:open:hit /s/b/libq.so", "note:open:hit /s/b/liba.so"]
    );
}

#[test]
fn secure_mode_ignores_notes() {
    let object = noted(program().needed("liba.so").runpath("/s/a:/s/b"), EXACT);
    let fs = libraries().object("/bin/prog", object);
    let secure = Environment { secure: true, ..reading() };
    assert_eq!(paths(&walk(&fs, facts(41), &secure)), ["/s/a/liba.so"]);
}

#[test]
fn a_library_added_to_the_directory_of_a_hint_is_found() {
    let note = "liba.so\0?/m:=/s/b/liba.so\0\0";
    let object = noted(program().needed("liba.so").runpath("/s/n:/m:/s/b"), note);
    let fs = libraries().dir("/m").object("/bin/prog", object);
    assert_eq!(sources(&fs, &reading()).last().unwrap(), "note:open:hit /s/b/liba.so");
    let fs = fs.object("/m/liba.so", ObjectBuilder::library("liba.so"));
    assert_eq!(sources(&fs, &reading()), ["note:open:hit /m/liba.so"]);
}
