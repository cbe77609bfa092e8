//! Tests of the `ldcache` strategy: the entries of a package's cache, and the start of a loader that
//! reads it.

use bstr::BString;

use super::absolute::{self, LD_SO, base, closure, closure_in, facts, library, settings};
use super::planned;
use crate::closure::Subject;
use crate::elf::{Class, Endian};
use crate::facts::{Environment, Readers};
use crate::fs::mem::ObjectBuilder;
use crate::fs::{Added, FileSystem, MemFs};
use crate::probe::{Call, Outcome, SearchSource};
use crate::search::loader_cache::{CacheQuery, LoaderCache};
use crate::strategy::planned::Outlook;
use crate::strategy::{Created, FindingKind, Plan, ldcache};

fn prog() -> ObjectBuilder {
    let program = ObjectBuilder::program().interpreter(LD_SO);
    program.needed("liba.so").needed("libb.so").runpath("/s/c/lib:/s/a/lib:/s/b/lib")
}

fn packages() -> MemFs {
    absolute::packages().object("/s/p/bin/prog", prog())
}

fn plan(fs: &dyn FileSystem, paths: &[&str]) -> Plan {
    let open = |path: &&str| Subject::open(fs, (*path).into()).expect("the fixture's object");
    let subjects: Vec<Subject> = paths.iter().map(open).collect();
    ldcache::plan(fs, &subjects, &[], &settings())
}

fn bytes(plan: &Plan) -> Vec<u8> {
    match plan.creations.last() {
        Some(Created { path, kind: Added::File { bytes } }) => {
            assert_eq!(path, "/s/p/etc/ld.so.cache");
            bytes.to_vec()
        }
        _ => panic!("a cache is planned"),
    }
}

fn entries(plan: &Plan) -> Vec<String> {
    let cache = LoaderCache::parse(bytes(plan), Endian::Little).expect("a loader cache");
    assert_eq!(cache.generator(), "becalm");
    cache.entries().map(|e| format!("{} {:#x} {}", e.soname, e.flags, e.path)).collect()
}

fn reading() -> Environment {
    let reads = Readers { note: false, package_caches: vec!["/s".into()] };
    Environment { reads, ..Environment::default() }
}

#[test]
fn a_loader_that_reads_the_cache_has_no_misses() {
    let fs = packages();
    let plan = plan(&fs, &["/s/p/bin/prog"]);
    assert_eq!(plan.creations[0], Created { path: "/s/p/etc".into(), kind: Added::Directory });
    assert_eq!(
        entries(&plan),
        ["libb.so 0x303 /s/b/lib/libb.so", "liba.so 0x303 /s/a/lib/liba.so"]
    );
    let before = closure(&fs);
    let after = planned(&fs, &before, &plan, &reading()).unwrap();
    assert!(after.is_equal(), "{:?}", after.finding());
    let probes: Vec<_> = after.after.probes().map(|p| (p.source, p.path.to_string())).collect();
    assert_eq!(
        probes,
        [
            (SearchSource::PackageCache, "/s/a/lib/liba.so".to_owned()),
            (SearchSource::PackageCache, "/s/b/lib/libb.so".to_owned())
        ]
    );
    // A loader that does not read the cache searches as before.
    let stock = planned(&fs, &before, &plan, &Environment::default()).unwrap();
    assert_eq!(stock.after.load.probes.len(), before.load.probes.len());
}

#[test]
fn a_name_that_two_objects_answer_differently_is_left_out() {
    let fs = packages()
        .object("/s/p/lib/libq.so", library("libq.so").needed("liba.so").runpath("/s/a2/lib"))
        .object("/s/a2/lib/liba.so", library("liba.so"));
    let plan = plan(&fs, &["/s/p/bin/prog", "/s/p/lib/libq.so"]);
    assert_eq!(entries(&plan), ["libb.so 0x303 /s/b/lib/libb.so"]);
    assert!(matches!(plan.findings[0].what, FindingKind::TwoAnswers { .. }));
    assert_eq!(plan.files[0].answers[0].exact, None);
}

#[test]
fn a_name_for_which_another_object_finds_another_file_is_left_out() {
    let library = |path: &str| library("libq.so").needed("libb.so").runpath(path);
    let fs = |path: &str| {
        let fs = packages().object("/s/a2/lib/liba.so", super::absolute::library("liba.so"));
        fs.object("/s/p/lib/libq.so", library(path))
    };
    let all = ["/s/p/bin/prog", "/s/p/lib/libq.so"];
    // The object does not need liba.so, but may open it with dlopen.
    let found = plan(&fs("/s/a2/lib:/s/a/lib:/s/b/lib"), &all);
    assert_eq!(entries(&found), ["libb.so 0x303 /s/b/lib/libb.so"]);
    assert!(
        matches!(found.findings[0].what, FindingKind::TwoAnswers { .. }),
        "{:?}",
        found.findings
    );
    let moved = plan(&fs("/m:/s/a/lib:/s/b/lib"), &all);
    assert!(moved.creations.is_empty());
    // The loader rejects an answer outside the object's run path.
    assert_eq!(entries(&plan(&fs("/s/a2/lib:/s/b/lib"), &all)).len(), 2);
}

#[test]
fn a_preload_is_answered_only_from_the_programs_run_path() {
    let fs = base()
        .dir("/s/c/lib")
        .object("/s/a/lib/liba.so", library("liba.so"))
        .object("/s/p/lib/libq.so", library("libq.so").needed("liba.so").runpath("/s/a/lib"));
    let cached = Some(SearchSource::PackageCache);
    for (path, source) in [("/s/c/lib:/s/a/lib", cached), ("/s/c/lib", None)] {
        let program = ObjectBuilder::program().interpreter(LD_SO).runpath(path);
        let fs = fs.clone().object("/s/p/bin/prog", program);
        let plan = plan(&fs, &["/s/p/bin/prog", "/s/p/lib/libq.so"]);
        assert_eq!(entries(&plan), ["liba.so 0x303 /s/a/lib/liba.so"]);
        let preload = Some(BString::from("liba.so"));
        let plain = Environment { preload: preload.clone(), ..Environment::default() };
        let reading = Environment { preload, ..reading() };
        let after = planned(&fs, &closure_in(&fs, &plain), &plan, &reading).unwrap();
        assert!(after.is_equal(), "{path}: {:?}", after.finding());
        let hit = after.after.probes().find(|p| (p.call, p.outcome) == (Call::Open, Outcome::Hit));
        assert_eq!(hit.map(|p| p.source), source, "{path}");
    }
}

#[test]
fn a_name_that_one_run_path_does_not_answer_is_left_out() {
    let fs = packages()
        .object("/s/p/lib/libq.so", library("libq.so").needed("liba.so").runpath("/m:/s/a/lib"))
        .object("/s/p/lib/libr.so", library("libr.so").needed("libb.so").runpath("/s/c/lib"))
        // The loader does not read the cache for an object without a run path.
        .object("/s/p/lib/libs.so", library("libs.so").needed("libb.so"));
    let all = ["/s/p/bin/prog", "/s/p/lib/libq.so", "/s/p/lib/libr.so", "/s/p/lib/libs.so"];
    let whole = plan(&fs, &all);
    assert!(whole.creations.is_empty());
    assert!(whole.findings.iter().any(|f| f.what == FindingKind::MutableBefore("/m".into())));
    assert!(whole.findings.iter().any(|f| f.what == FindingKind::NotByRunPath));
    assert_eq!(entries(&plan(&fs, &["/s/p/bin/prog", "/s/p/lib/libs.so"])).len(), 2);
}

#[test]
fn classes_share_a_cache_and_byte_orders_do_not() {
    let small = |builder: ObjectBuilder| builder.class(Class::Elf32).machine(3);
    let fs = packages()
        .object("/s/a32/liba.so", small(library("liba.so")))
        .object("/s/p/bin/prog32", small(prog().runpath("/s/c/lib:/s/a32")))
        .object("/s/p/bin/other", prog().endian(Endian::Big));
    let plan = plan(&fs, &["/s/p/bin/prog", "/s/p/bin/prog32", "/s/p/bin/other"]);
    assert_eq!(
        entries(&plan),
        [
            "libb.so 0x303 /s/b/lib/libb.so",
            "liba.so 0x303 /s/a/lib/liba.so",
            "liba.so 0x3 /s/a32/liba.so"
        ]
    );
    assert!(plan.findings.iter().any(|f| f.what == FindingKind::OtherByteOrder));
}

#[test]
fn a_big_endian_target_gets_a_big_endian_cache() {
    let s390 = |builder: ObjectBuilder| builder.machine(22).endian(Endian::Big);
    let fs = base()
        .object("/s/a/lib/liba.so", s390(library("liba.so")))
        .dir("/s/c/lib")
        .object("/s/p/bin/prog", s390(prog()));
    let plan = plan(&fs, &["/s/p/bin/prog"]);
    let bytes = bytes(&plan);
    assert!(LoaderCache::parse(bytes.clone(), Endian::Little).is_none());
    let ident = Subject::open(&fs, "/s/p/bin/prog".into()).unwrap().view.ident;
    let cache = LoaderCache::parse_for(bytes, &ident).expect("a loader cache");
    let query = CacheQuery::new(&ident, &facts());
    assert_eq!(cache.lookup("liba.so".into(), &query).unwrap(), "/s/a/lib/liba.so");
}

#[test]
fn an_equal_cache_is_not_planned_again_and_a_foreign_one_not_replaced() {
    let fs = packages();
    let first = plan(&fs, &["/s/p/bin/prog"]);
    let again = plan(&Outlook::of(&fs, &first).over(&fs), &["/s/p/bin/prog"]);
    assert!(again.is_empty());
    let foreign = packages().file("/s/p/etc/ld.so.cache", "somebody's");
    let plan = plan(&foreign, &["/s/p/bin/prog"]);
    assert!(plan.is_empty());
    assert_eq!(plan.findings[0].what, FindingKind::InTheWay("/s/p/etc/ld.so.cache".into()));
}

#[test]
fn an_object_with_an_empty_run_path_counts_and_contradicts() {
    let fs =
        packages().object("/s/p/lib/libq.so", library("libq.so").needed("liba.so").runpath(""));
    let plan = plan(&fs, &["/s/p/bin/prog", "/s/p/lib/libq.so"]);
    assert_eq!(entries(&plan), ["libb.so 0x303 /s/b/lib/libb.so"]);
}

#[test]
fn the_cache_of_a_closure_answers_for_the_libraries_as_well() {
    let program = ObjectBuilder::program().interpreter(LD_SO);
    let fs = base()
        .object("/s/p/bin/prog", program.needed("liba.so").runpath("/s/a/lib"))
        .dir("/s/c/lib")
        .object(
            "/s/a/lib/liba.so",
            library("liba.so").needed("libz.so").runpath("/s/c/lib:/s/z/lib"),
        )
        .object("/s/z/lib/libz.so", library("libz.so").needed("libsystem.so"))
        .object("/lib/libsystem.so", library("libsystem.so"));
    let own = plan(&fs, &["/s/p/bin/prog"]);
    assert_eq!(entries(&own), ["liba.so 0x303 /s/a/lib/liba.so"]);
    let subject = Subject::open(&fs, "/s/p/bin/prog".into()).expect("the fixture's program");
    let closure = closure(&fs);
    let whole = ldcache::plan(&fs, &[subject], &[&closure], &settings());
    assert_eq!(
        entries(&whole),
        ["libz.so 0x303 /s/z/lib/libz.so", "liba.so 0x303 /s/a/lib/liba.so"],
        "what the machine's own search finds is left to it"
    );
    let after = planned(&fs, &closure, &whole, &reading()).unwrap();
    assert!(after.is_equal(), "{:?}", after.finding());
}
