//! Tests of the `farm` strategy: the paths of the links, and the libraries without a link.

use super::absolute::{LD_SO, closure, library, packages, settings};
use super::planned;
use crate::closure::Subject;
use crate::cost::SearchCost;
use crate::edit::Edit;
use crate::elf::ObjectView;
use crate::facts::Environment;
use crate::fs::mem::ObjectBuilder;
use crate::fs::{Added, FileSystem, MemFs};
use crate::strategy::planned::Outlook;
use crate::strategy::{Created, Finding, FindingKind, Plan, Severity, farm};

const FARM: &str = "/s/p/lib/becalm-farm/bin/prog";

fn prog(runpath: &str) -> ObjectBuilder {
    let program = ObjectBuilder::program().interpreter(LD_SO);
    program.needed("liba.so").needed("libb.so").runpath(runpath)
}

fn leaf(fs: &dyn FileSystem) -> Plan {
    let subject = Subject::open(fs, "/s/p/bin/prog".into()).expect("the fixture's program");
    farm::leaf(fs, &subject, &settings())
}

fn created(plan: &Plan) -> Vec<String> {
    let line = |Created { path, kind }: &Created| match kind {
        Added::Directory => format!("{path}/"),
        Added::Link { target } => format!("{path} -> {target}"),
        Added::File { .. } => format!("{path}"),
    };
    plan.creations.iter().map(line).collect()
}

fn run_path(plan: &Plan, at: usize) -> String {
    match plan.files[at].edits.as_slice() {
        [Edit::RunPath { value: Some(value), .. }] => value.to_string(),
        _ => panic!("another edit"),
    }
}

/// Checks that the load set stays the same, and returns the misses before and after.
fn misses(fs: &MemFs, plan: &Plan) -> (u64, u64) {
    let before = closure(fs);
    let after = planned(fs, &before, plan, &Environment::default()).unwrap();
    assert!(after.is_equal(), "{:?}", after.finding());
    (SearchCost::of(&before.load).misses(), SearchCost::of(&after.after.load).misses())
}

#[test]
fn links_come_first_and_the_run_path_stays_after_them() {
    let fs = packages().object("/s/p/bin/prog", prog("/s/c/lib:/s/a/lib:/s/b/lib"));
    let plan = leaf(&fs);
    assert_eq!(
        created(&plan),
        [
            "/s/p/lib/",
            "/s/p/lib/becalm-farm/",
            "/s/p/lib/becalm-farm/bin/",
            "/s/p/lib/becalm-farm/bin/prog/",
            "/s/p/lib/becalm-farm/bin/prog/liba.so -> /s/a/lib/liba.so",
            "/s/p/lib/becalm-farm/bin/prog/libb.so -> /s/b/lib/libb.so"
        ]
    );
    assert_eq!(run_path(&plan, 0), format!("{FARM}:/s/c/lib:/s/a/lib:/s/b/lib"));
    assert_eq!(misses(&fs, &plan), (3, 0));
}

#[test]
fn a_second_run_has_nothing_to_do() {
    let fs = packages().object("/s/p/bin/prog", prog("/s/c/lib:/m:/s/a/lib:/s/b/lib"));
    let plan = leaf(&fs);
    assert!(!plan.is_empty());
    let again = leaf(&Outlook::of(&fs, &plan).over(&fs));
    assert!(again.is_empty(), "{again:?}");
}

#[test]
fn names_found_after_a_mutable_directory_get_a_farm_after_it() {
    let fs = packages().object("/s/p/bin/prog", prog("/s/c/lib:/s/a/lib:/m:/s/c/lib:/s/b/lib"));
    let plan = leaf(&fs);
    assert_eq!(
        run_path(&plan, 0),
        format!("{FARM}/1:/s/c/lib:/s/a/lib:/m:{FARM}/2:/s/b/lib"),
        "a directory is listed once"
    );
    misses(&fs, &plan);
    assert_eq!(plan.files[0].answers[1].hints, ["/m"]);
    // A file that is added to the mutable directory later wins, as in the plain search.
    let later = fs.clone().object("/m/libb.so", library("libb.so"));
    let before = closure(&later);
    assert!(before.load.objects.iter().any(|object| object.path == "/m/libb.so"));
    misses(&later, &plan);
}

#[test]
fn a_link_within_the_package_is_relative() {
    let fs = packages()
        .object("/s/p/lib/liba.so", library("liba.so"))
        .object("/s/p/bin/prog", prog("/s/c/lib:/s/p/lib:/s/b/lib"));
    let plan = leaf(&fs);
    let link = format!("{FARM}/liba.so -> ../../../../lib/liba.so");
    assert!(created(&plan).contains(&link), "{:?}", created(&plan));
    assert_eq!(misses(&fs, &plan), (3, 0));
}

#[test]
fn a_library_that_uses_its_origin_is_not_linked() {
    let fs = packages()
        .object("/s/a/lib/liba.so", library("liba.so").needed("libz.so").runpath("$ORIGIN"))
        .object("/s/a/lib/libz.so", library("libz.so"))
        .object("/s/p/bin/prog", prog("/s/c/lib:/s/a/lib:/s/b/lib"));
    let plan = leaf(&fs);
    assert_eq!(plan.findings[0].what, FindingKind::UsesOrigin("/s/a/lib/liba.so".into()));
    assert!(!created(&plan).iter().any(|line| line.contains("liba.so")));
    let (before, after) = misses(&fs, &plan);
    assert!(after < before + 2, "{before} {after}");
}

#[test]
fn a_library_whose_note_uses_its_origin_is_not_linked() {
    let mut noted: ObjectView = library("liba.so").into();
    noted.notes.resolution = Some(b"${ORIGIN}".to_vec());
    let fs = packages()
        .object("/s/a/lib/liba.so", noted)
        .object("/s/p/bin/prog", prog("/s/c/lib:/s/a/lib:/s/b/lib"));
    assert_eq!(leaf(&fs).findings[0].what, FindingKind::UsesOrigin("/s/a/lib/liba.so".into()));
}

#[test]
fn nothing_is_planned_if_the_first_directory_answers_or_the_object_is_in_no_store() {
    let fs = packages().object("/s/p/bin/prog", prog("/s/a/lib"));
    assert!(leaf(&fs).is_empty());
    assert_eq!(leaf(&fs).findings[0].what, FindingKind::NothingToSkip);
    let bare = ObjectBuilder::program().interpreter(LD_SO).needed("liba.so");
    let fs = packages().object("/s/p/bin/prog", bare);
    assert_eq!(leaf(&fs).findings[0].what, FindingKind::NoRunPath);
    let fs = packages().object("/opt/prog", prog("/s/c/lib:/s/a/lib"));
    let subject = Subject::open(&fs, "/opt/prog".into()).unwrap();
    let plan = farm::leaf(&fs, &subject, &settings());
    assert_eq!(plan.findings[0].what, FindingKind::OutsideStores);
}

#[test]
fn a_graph_serves_every_object_of_the_closure() {
    let fs = packages()
        .object(
            "/s/b/lib/libb.so",
            library("libb.so")
                .needed("libd.so")
                .needed("liba.so")
                .runpath("/s/c/lib:/s/d:/s/a/lib"),
        )
        .object("/s/d/libd.so", library("libd.so"))
        .object("/s/p/bin/prog", prog("/s/c/lib:/s/a/lib:/s/b/lib"));
    let plan = farm::graph(&fs, &closure(&fs), &settings());
    let links: Vec<String> = created(&plan).into_iter().filter(|l| l.contains("->")).collect();
    assert_eq!(links.len(), 4);
    let changed =
        "/s/p/lib/becalm-farm/.changed/bin/prog/0000 -> ../../../../../../../s/b/lib/libb.so";
    assert_eq!(links[3], changed, "the libraries that are changed are listed");
    assert_eq!(plan.files.len(), 2);
    assert_eq!(run_path(&plan, 0), format!("{FARM}:/s/c/lib:/s/d:/s/a/lib"));
    assert_eq!(misses(&fs, &plan), (4, 0));
}

#[test]
fn two_files_for_one_soname_are_a_conflict_and_are_not_linked() {
    let fs = packages()
        .object(
            "/s/b/lib/libb.so",
            library("libb.so").needed("liba.so").runpath("/s/c/lib:/s/a2/lib"),
        )
        .object("/s/a2/lib/liba.so", library("liba.so"))
        .object("/s/p/bin/prog", prog("/s/c/lib:/s/a/lib:/s/b/lib"));
    let plan = farm::graph(&fs, &closure(&fs), &settings());
    let what = FindingKind::TwoAnswers {
        one: "/s/a/lib/liba.so".into(),
        other: "/s/a2/lib/liba.so".into(),
    };
    let path = "/s/b/lib/libb.so".into();
    assert_eq!(
        plan.findings,
        [Finding { path, needed: Some("liba.so".into()), severity: Severity::Conflict, what }]
    );
    assert!(!created(&plan).iter().any(|line| line.contains("liba.so")));
    misses(&fs, &plan);
}
