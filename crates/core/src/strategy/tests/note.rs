//! Tests of the `note` strategy.

use bstr::{BString, ByteSlice};

use crate::closure::Subject;
use crate::edit::Edit;
use crate::elf::resolution_note::{Answer, records};
use crate::elf::{Class, ObjectView};
use crate::fs::mem::ObjectBuilder;
use crate::fs::{MappedFs, MemFs};
use crate::search::Stores;
use crate::strategy::{FindingKind, Settings, note};

fn settings() -> Settings {
    Settings { stores: Stores::parse("/s".into()), glibc_minor: Some(41), ..Settings::default() }
}

fn library(soname: &str) -> ObjectBuilder {
    ObjectBuilder::library(soname)
}

/// Makes two packages with one library each.
fn base() -> MemFs {
    MemFs::new()
        .object("/s/a/lib/liba.so", library("liba.so"))
        .object("/s/b/lib/libb.so", library("libb.so"))
        .dir("/s/c/lib")
}

fn prog(runpath: &str) -> ObjectBuilder {
    ObjectBuilder::program().needed("libb.so").needed("liba.so").runpath(runpath)
}

fn planned(fs: &MemFs, path: &str) -> crate::strategy::Plan {
    let subject = Subject::open(fs, path.into()).expect("the fixture's object");
    note::plan(fs, &subject, &settings())
}

/// Formats the note as lines of `needed list`. A plan without a note has no lines.
fn lines(plan: &crate::strategy::Plan) -> Vec<String> {
    let Some(Edit::ResolutionNote(Some(bytes))) = plan.files[0].edits.first() else {
        return Vec::new();
    };
    let line = |record: crate::elf::resolution_note::Record<'_>| {
        let answers = record.answers.iter().map(|answer| match answer {
            Answer::Exact(path) => format!("={path}"),
            Answer::Hint(dir) => format!("?{dir}"),
        });
        format!("{} {}", record.needed, answers.collect::<Vec<_>>().join(":"))
    };
    records(bytes).map(|record| line(record.expect("a well-formed note"))).collect()
}

fn note_of(fs: &MemFs, path: &str) -> Vec<String> {
    lines(&planned(fs, path))
}

fn program_note(object: impl Into<ObjectView>, fs: MemFs) -> Vec<String> {
    note_of(&fs.object("/s/p/bin/prog", object), "/s/p/bin/prog")
}

#[test]
fn answers_are_exact_and_sorted() {
    assert_eq!(
        program_note(prog("/s/c/lib:/s/a/lib/:/s/b/lib"), base()),
        ["liba.so =/s/a/lib/liba.so", "libb.so =/s/b/lib/libb.so"]
    );
}

#[test]
fn a_mutable_directory_keeps_its_position_even_if_it_is_absent() {
    assert_eq!(
        program_note(prog("/s/a/lib:/run/driver/lib:/s/b/lib:/opt/after"), base()),
        ["liba.so =/s/a/lib/liba.so", "libb.so ?/run/driver/lib:=/s/b/lib/libb.so"]
    );
}

#[test]
fn a_missing_package_is_a_hint_because_it_may_be_added() {
    assert_eq!(
        program_note(prog("/s/none/lib:/s/a/none:/s/a/lib"), base()),
        ["liba.so ?/s/none/lib:=/s/a/lib/liba.so"]
    );
}

#[test]
fn the_current_directory_and_relative_directories_are_hints() {
    assert_eq!(
        program_note(prog(":rel:/s/a/lib:$LIB:/s/b/lib:$ORIGIN/$PLATFORM"), base()),
        ["liba.so ?:?rel:=/s/a/lib/liba.so", "libb.so ?:?rel:?$LIB:=/s/b/lib/libb.so"]
    );
}

#[test]
fn a_directory_is_listed_once() {
    assert_eq!(
        program_note(prog("/m:/m/:/s/c/lib:/m:/s/a/lib"), base()),
        ["liba.so ?/m:=/s/a/lib/liba.so"]
    );
}

#[test]
fn a_candidate_of_another_class_is_skipped_as_by_the_loader() {
    let fs = base().object("/s/c/lib/liba.so", library("liba.so").class(Class::Elf32));
    let prog = || prog("/s/c/lib:/s/a/lib:/s/b/lib");
    assert_eq!(
        program_note(prog(), fs.clone()),
        ["liba.so =/s/a/lib/liba.so", "libb.so =/s/b/lib/libb.so"]
    );
    // musl would fail with this file.
    let musl = prog().interpreter("/lib/ld-musl-x86_64.so.1");
    assert_eq!(program_note(musl, fs), ["libb.so =/s/b/lib/libb.so"]);
}

#[test]
fn a_file_that_the_loader_refuses_ends_the_record() {
    let fs = base().file("/s/c/lib/liba.so", "INPUT(libreal.so)");
    let fs = fs.object("/s/p/bin/prog", prog("/s/c/lib:/s/a/lib:/s/b/lib"));
    let plan = planned(&fs, "/s/p/bin/prog");
    assert_eq!(lines(&plan), ["libb.so =/s/b/lib/libb.so"]);
    assert_eq!(plan.findings[0].what, FindingKind::GivesUp("/s/c/lib/liba.so".into()));
}

#[test]
fn a_directory_with_hwcaps_variants_is_searched_by_the_loader() {
    let fs = base().dir("/s/a/lib/glibc-hwcaps/x86-64-v3");
    assert_eq!(
        program_note(prog("/s/c/lib:/s/a/lib:/s/b/lib"), fs.clone()),
        ["liba.so ?/s/a/lib", "libb.so ?/s/a/lib:=/s/b/lib/libb.so"]
    );
    // An architecture without levels has no variants.
    let arm = |builder: ObjectBuilder| builder.machine(183);
    let fs = fs
        .object("/s/a/lib/liba.so", arm(library("liba.so")))
        .object("/s/b/lib/libb.so", arm(library("libb.so")));
    assert_eq!(
        program_note(arm(prog("/s/c/lib:/s/a/lib:/s/b/lib")), fs),
        ["liba.so =/s/a/lib/liba.so", "libb.so =/s/b/lib/libb.so"]
    );
}

#[test]
fn a_legacy_hwcaps_directory_counts_if_the_release_searches_it() {
    let fs = base().dir("/s/a/lib/haswell").object("/s/p/bin/prog", prog("/s/c/lib:/s/a/lib"));
    let subject = Subject::open(&fs, "/s/p/bin/prog".into()).unwrap();
    let with = |minor| note::plan(&fs, &subject, &Settings { glibc_minor: minor, ..settings() });
    assert_eq!(lines(&with(Some(36))), ["liba.so ?/s/a/lib"]);
    assert_eq!(lines(&with(None)), ["liba.so ?/s/a/lib"]);
    assert_eq!(lines(&with(Some(37))), ["liba.so =/s/a/lib/liba.so"]);
}

#[test]
fn origin_within_the_package_is_exact_and_keeps_its_token() {
    let fs = base()
        .object("/s/p/lib/liba.so", library("liba.so"))
        .object(
            "/s/p/lib/libq.so",
            library("libq.so")
                .needed("liba.so")
                .needed("libb.so")
                .runpath("$ORIGIN/../none:${ORIGIN}/../lib:/s/b/lib"),
        )
        .object("/s/p/bin/prog", prog("$ORIGIN/../none:$ORIGIN/../lib:/s/b/lib"));
    assert_eq!(
        note_of(&fs, "/s/p/bin/prog"),
        ["liba.so =$ORIGIN/../lib/liba.so", "libb.so =/s/b/lib/libb.so"]
    );
    // A link from another directory may lead to a library, so its own directories are not skipped.
    assert_eq!(
        note_of(&fs, "/s/p/lib/libq.so"),
        [
            "liba.so ?$ORIGIN/../none:=${ORIGIN}/../lib/liba.so",
            "libb.so ?$ORIGIN/../none:?${ORIGIN}/../lib:=/s/b/lib/libb.so"
        ]
    );
}

#[test]
fn origin_and_the_same_directory_written_out_are_two_elements() {
    let library = library("libq.so").needed("libb.so");
    let fs =
        base().object("/s/p/lib/libq.so", library.runpath("/s/p/lib:$ORIGIN:$ORIGIN/:/s/b/lib"));
    assert_eq!(note_of(&fs, "/s/p/lib/libq.so"), ["libb.so ?$ORIGIN:=/s/b/lib/libb.so"]);
}

#[test]
fn origin_into_another_package_or_outside_the_stores_is_a_hint() {
    let fs = base()
        .object("/s/p/bin/prog", prog("/s/c/lib:$ORIGIN/../../a/lib"))
        .object("/opt/bin/prog", prog("/s/c/lib:$ORIGIN/../../s/a/lib:/s/a/lib"));
    assert_eq!(note_of(&fs, "/s/p/bin/prog"), ["liba.so ?$ORIGIN/../../a/lib"]);
    assert_eq!(
        note_of(&fs, "/opt/bin/prog"),
        ["liba.so ?$ORIGIN/../../s/a/lib:=/s/a/lib/liba.so"],
        "directories are the same by name alone"
    );
}

#[test]
fn rpath_is_answered_by_the_objects_own_one_only() {
    let object = ObjectBuilder::program().needed("liba.so").rpath("/s/c/lib:/s/a/lib");
    assert_eq!(program_note(object, base()), ["liba.so =/s/a/lib/liba.so"]);
}

#[test]
fn a_list_of_hints_only_is_recorded_if_it_skips_a_directory() {
    let fs = base().object("/m/liba.so", library("liba.so")).dir("/n");
    assert_eq!(program_note(prog("/n:/m"), fs.clone()), Vec::<String>::new());
    assert_eq!(program_note(prog("/s/c/lib:/n:/m:/n2"), fs), ["liba.so ?/n:?/m"]);
}

#[test]
fn sonames_opened_with_dlopen_are_recorded() {
    let mut view: ObjectView = ObjectBuilder::program().runpath("/s/a/lib:/s/b/lib").into();
    view.notes.dlopen = vec![BString::from(r#"[{"soname":["liba.so","libz.so"]}]"#)];
    let fs = base().object("/s/p/bin/prog", view);
    let subject = Subject::open(&fs, "/s/p/bin/prog".into()).unwrap();
    let settings = Settings { dlopen: vec!["libb.so".into(), "/x/y".into()], ..settings() };
    assert_eq!(
        lines(&note::plan(&fs, &subject, &settings)),
        ["liba.so =/s/a/lib/liba.so", "libb.so =/s/b/lib/libb.so"]
    );
}

#[test]
fn paths_and_tokens_are_not_searched_and_not_recorded() {
    let object = ObjectBuilder::program()
        .needed("/s/a/lib/liba.so")
        .needed("$ORIGIN")
        .needed("")
        .needed("liba.so")
        .runpath("/s/a/lib");
    assert_eq!(program_note(object, base()), ["liba.so =/s/a/lib/liba.so"]);
}

#[test]
fn names_that_a_list_cannot_express_are_left_to_the_plain_search() {
    let fs = base()
        .object("/s/a/lib/li:b.so", library("li:b.so"))
        .object("/s/x;y/lib/libx.so", library("libx.so"))
        .object("/s/p/bin/prog", prog("/s/a/lib:/s/x;y/lib").needed("li:b.so").needed("libx.so"));
    let plan = planned(&fs, "/s/p/bin/prog");
    assert_eq!(lines(&plan), ["liba.so =/s/a/lib/liba.so"]);
    let left: Vec<_> = plan.findings.iter().map(|f| f.needed.clone().unwrap()).collect();
    assert_eq!(left, ["li:b.so", "libb.so", "libx.so"]);
    assert_eq!(plan.findings[2].what, FindingKind::Inexpressible("/s/x;y/lib/libx.so".into()));
}

#[test]
fn loader_libc_and_static_programs_are_skipped() {
    let fs = base()
        .object("/s/g/ld", library("ld-linux-x86-64.so.2"))
        .object("/s/g/libc", library("libc.so.6").needed("ld-linux-x86-64.so.2").runpath("/s/g"))
        .object("/s/g/static", ObjectBuilder::program().without_dynamic().e_type(2))
        .object("/s/g/idle", ObjectBuilder::program().runpath("/s/a/lib"))
        .object("/s/g/plain", ObjectBuilder::program().needed("liba.so"));
    for (path, what) in [
        ("/s/g/ld", FindingKind::Loader),
        ("/s/g/libc", FindingKind::Libc),
        ("/s/g/static", FindingKind::StaticProgram),
        ("/s/g/idle", FindingKind::NothingNeeded),
        ("/s/g/plain", FindingKind::NoRunPath),
    ] {
        let plan = planned(&fs, path);
        assert_eq!(plan.findings[0].what, what);
        assert!(plan.is_empty(), "{path}");
    }
}

#[test]
fn a_right_note_stays_and_a_stale_note_is_replaced() {
    let fs = base().object("/s/p/bin/prog", prog("/s/a/lib:/s/b/lib"));
    let Some(Edit::ResolutionNote(Some(bytes))) =
        planned(&fs, "/s/p/bin/prog").files[0].edits.pop()
    else {
        panic!("a note is planned");
    };
    let with = |note: &[u8]| {
        let mut view: ObjectView = prog("/s/a/lib:/s/b/lib").into();
        view.notes.resolution = Some(note.to_vec());
        planned(&base().object("/s/p/bin/prog", view), "/s/p/bin/prog")
    };
    assert!(with(&bytes).is_empty());
    assert_eq!(with(b"stale").files[0].edits, [Edit::ResolutionNote(Some(bytes))]);
    let mut idle: ObjectView = ObjectBuilder::program().into();
    idle.notes.resolution = Some(vec![0]);
    let plan = planned(&base().object("/s/p/bin/prog", idle), "/s/p/bin/prog");
    assert_eq!(plan.files[0].edits, [Edit::ResolutionNote(None)]);
}

#[test]
fn a_package_in_its_build_directory_is_planned_for_its_final_path() {
    let base = base()
        .object("/build/out/lib/liba.so", library("liba.so"))
        .object("/build/out/bin/prog", prog("/s/p/lib:/s/b/lib"));
    let map = "/build/out=/s/p".parse().unwrap();
    let fs = MappedFs::new(&base, vec![map]);
    let subject = Subject::open(&fs, fs.planned("/build/out/bin/prog".into()).as_bstr()).unwrap();
    let plan = note::plan(&fs, &subject, &settings());
    assert_eq!(lines(&plan), ["liba.so =/s/p/lib/liba.so", "libb.so =/s/b/lib/libb.so"]);
    assert_eq!(fs.real(plan.files[0].path.as_ref()), "/build/out/bin/prog");
}
