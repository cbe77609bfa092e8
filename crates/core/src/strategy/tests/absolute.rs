//! Tests of the `absolute` strategy.

use bstr::BString;

use super::planned;
use crate::closure::{self, Closure, Subject};
use crate::edit::Edit;
use crate::facts::{Environment, LoaderFacts};
use crate::fs::mem::ObjectBuilder;
use crate::fs::{Added, MemFs};
use crate::loader::facts::plain_glibc;
use crate::search::Stores;
use crate::strategy::settings::kept_short;
use crate::strategy::{Created, FindingKind, Plan, Settings, absolute, farm};

pub(super) const LD_SO: &str = "/lib/ld.so";

pub(super) fn library(soname: &str) -> ObjectBuilder {
    ObjectBuilder::library(soname)
}

pub(super) fn base() -> MemFs {
    MemFs::new().object(LD_SO, library("ld-linux-x86-64.so.2")).dir("/usr/lib")
}

/// Makes packages with one library each, and one without a library.
pub(super) fn packages() -> MemFs {
    base()
        .object("/s/a/lib/liba.so", library("liba.so"))
        .object("/s/b/lib/libb.so", library("libb.so"))
        .dir("/s/c/lib")
}

pub(super) fn facts() -> LoaderFacts {
    plain_glibc(41)
}

pub(super) fn settings() -> Settings {
    Settings {
        stores: Stores::parse("/s".into()),
        keep: kept_short(),
        glibc_minor: Some(41),
        ..Settings::default()
    }
}

pub(super) fn closure(fs: &MemFs) -> Closure {
    closure_in(fs, &Environment::default())
}

pub(super) fn closure_in(fs: &MemFs, environment: &Environment) -> Closure {
    let subject = Subject::open(fs, "/s/p/bin/prog".into()).expect("the fixture's program");
    closure::resolve(fs, subject, LD_SO.into(), facts(), environment).expect("the fixture's loader")
}

fn plan(fs: &MemFs) -> Plan {
    absolute::plan(fs, &closure(fs), None, &settings())
}

/// Formats each replaced needed string as `file: from > to`.
fn renamed(plan: &Plan) -> Vec<String> {
    let mut lines = Vec::new();
    for file in &plan.files {
        for edit in &file.edits {
            let Edit::ReplaceNeeded { from, to } = edit else { panic!("another edit") };
            lines.push(format!("{}: {from} > {to}", file.path));
        }
    }
    lines
}

fn kinds(plan: &Plan) -> Vec<String> {
    let line = |f: &crate::strategy::Finding| {
        format!("{}: {}: {}", f.path, f.needed.clone().unwrap_or_default(), f.what)
    };
    plan.findings.iter().map(line).collect()
}

fn prog() -> ObjectBuilder {
    ObjectBuilder::program().interpreter(LD_SO).runpath("/s/a/lib:/s/g/lib")
}

#[test]
fn needed_strings_become_paths_and_libc_keeps_its_short_name() {
    let fs = base()
        .object("/s/p/bin/prog", prog().needed("liba.so").needed("libc.so.6").needed("libGL.so.1"))
        .object("/s/a/lib/liba.so", library("liba.so").needed("libb.so").runpath("/s/b/lib"))
        .object("/s/b/lib/libb.so", library("libb.so"))
        .object("/s/g/lib/libGL.so.1", library("libGL.so.1"))
        .object("/s/g/lib/libc.so.6", library("libc.so.6"));
    let plan = plan(&fs);
    assert_eq!(renamed(&plan), ["/s/p/bin/prog: liba.so > /s/a/lib/liba.so"]);
    let kept = plan.findings.iter().filter(|f| f.what == FindingKind::Kept).count();
    assert_eq!(kept, 2);
    let before = closure(&fs);
    let after = planned(&fs, &before, &plan, &Environment::default()).unwrap();
    assert!(after.is_equal(), "{:?}", after.finding());
    assert_eq!(after.after.load.resolutions[0].needed, "/s/a/lib/liba.so");
}

#[test]
fn a_library_has_the_answer_of_its_own_start_and_a_program_that_loads_another_is_detected() {
    let fs = base()
        .object(
            "/s/p/bin/prog",
            ObjectBuilder::program()
                .interpreter(LD_SO)
                .rpath("/s/a/lib:/s/b1/lib")
                .needed("libb.so")
                .needed("liba.so"),
        )
        // The program has loaded the name from b1; the library's own run path finds b2.
        .object("/s/a/lib/liba.so", library("liba.so").needed("libb.so").runpath("/s/b2/lib"))
        .object("/s/b1/lib/libb.so", library("libb.so"))
        .object("/s/b2/lib/libb.so", library("libb.so"));
    let library = Subject::open(&fs, "/s/a/lib/liba.so".into()).expect("the fixture's library");
    let start = closure::resolve(&fs, library, LD_SO.into(), facts(), &Environment::default());
    let plan = absolute::plan(&fs, &start.expect("the loader"), None, &settings());
    assert_eq!(renamed(&plan), ["/s/a/lib/liba.so: libb.so > /s/b2/lib/libb.so"]);
    let after = planned(&fs, &closure(&fs), &plan, &Environment::default()).unwrap();
    let finding = after.finding().expect("a refusal").what.to_string();
    assert!(finding.contains("/s/b2/lib/libb.so"), "{finding}");
}

#[test]
fn a_plan_that_would_load_another_object_is_detected() {
    // liba has no soname. libq finds it because the program has loaded it by this name.
    let fs = base()
        .object("/s/p/bin/prog", prog().needed("liba.so").needed("libq.so"))
        .object("/s/a/lib/liba.so", library(""))
        .object("/s/a/lib/libq.so", library("libq.so").needed("liba.so"));
    let before = closure(&fs);
    assert_eq!(before.unresolved().len(), 0);
    let plan = plan(&fs);
    let after = planned(&fs, &before, &plan, &Environment::default()).unwrap();
    assert_eq!(after.unresolved, ["liba.so"]);
    let finding = after.finding().expect("a refusal").what.to_string();
    assert_eq!(finding, "the program would load other objects: liba.so no longer found");
}

#[test]
fn answers_of_the_loader_replace_those_of_the_model() {
    let fs = base()
        .object("/s/p/bin/prog", prog().needed("liba.so").needed("libz.so"))
        .object("/s/a/lib/liba.so", library("liba.so"))
        .object("/s/a/lib/libz.so", library("libz.so"));
    let told = [("liba.so".into(), "/elsewhere/liba.so".into())].into();
    let plan = absolute::plan(&fs, &closure(&fs), Some(&told), &settings());
    assert_eq!(renamed(&plan), ["/s/p/bin/prog: liba.so > /elsewhere/liba.so"]);
    assert_eq!(plan.findings[0].what, FindingKind::Missing);
}

#[test]
fn paths_that_the_loader_would_change_are_not_written() {
    let long = format!("/{}", "d".repeat(200)).repeat(21);
    let fs = base()
        .object("/s/p/bin/prog", prog().needed("libt.so").needed("libn.so").runpath("/s/$x:rel"))
        .object("/s/$x/libt.so", library("libt.so"))
        .object("/rel/libn.so", library("libn.so"))
        .cwd("/");
    let texts = kinds(&plan(&fs));
    assert_eq!(texts, ["/s/p/bin/prog: libn.so: rel/libn.so: relative to the current directory"]);
    let with = |path: BString| {
        let told = [("libt.so".into(), path)].into();
        let plan = absolute::plan(&fs, &closure(&fs), Some(&told), &settings());
        plan.findings[0].what.clone()
    };
    assert_eq!(with("/s/$LIB/a".into()), FindingKind::HoldsToken("/s/$LIB/a".into()));
    assert_eq!(with("/s/a\nb".into()), FindingKind::Inexpressible("/s/a\nb".into()));
    assert_eq!(with(long.as_str().into()), FindingKind::TooLong(long.as_str().into()));
}

#[test]
fn a_library_with_hwcaps_variants_keeps_its_short_name() {
    let fs = base()
        .object("/s/p/bin/prog", prog().needed("liba.so"))
        .object("/s/a/lib/liba.so", library("liba.so"))
        .object("/s/a/lib/glibc-hwcaps/x86-64-v3/liba.so", library("liba.so"));
    let plan = plan(&fs);
    assert_eq!(plan.files[0].edits, []);
    assert_eq!(plan.findings[0].what, FindingKind::Variant("/s/a/lib/liba.so".into()));
}

#[test]
fn musl_has_no_hwcaps_variants_so_its_libraries_get_their_paths() {
    const MUSL: &str = "/lib/ld-musl-x86_64.so.1";
    let program = ObjectBuilder::program().interpreter(MUSL).needed("liba.so");
    let fs = MemFs::new()
        .object(MUSL, library("libc.musl-x86_64.so.1"))
        .object("/s/p/bin/prog", program.needed("libc.so").runpath("/s/c/lib:/s/a/lib"))
        .object("/s/a/lib/liba.so", library("liba.so").needed("libc.so"))
        .dir("/s/c/lib")
        .object("/s/a/lib/glibc-hwcaps/x86-64-v3/liba.so", library("liba.so"));
    let subject = Subject::open(&fs, "/s/p/bin/prog".into()).expect("the fixture's program");
    let facts = crate::loader::facts::musl();
    let closure = closure::resolve(&fs, subject, MUSL.into(), facts, &Environment::default());
    let closure = closure.expect("the fixture's loader");
    let plan = absolute::plan(&fs, &closure, None, &settings());
    assert_eq!(renamed(&plan), ["/s/p/bin/prog: liba.so > /s/a/lib/liba.so"]);
    for plan in
        [farm::leaf(&fs, &closure.subject, &settings()), farm::graph(&fs, &closure, &settings())]
    {
        let link = Created {
            path: "/s/p/lib/becalm-farm/bin/prog/liba.so".into(),
            kind: Added::Link { target: "/s/a/lib/liba.so".into() },
        };
        assert!(plan.creations.contains(&link), "{plan:?}");
    }
}
