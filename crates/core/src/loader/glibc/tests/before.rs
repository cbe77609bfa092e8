//! Tests that starts which share the results of their searches are those of the plain model.

use super::*;
use crate::closure::{FoundBefore, Starts};

/// Programs whose libraries are found along run paths of their own, inherited ones, the system
/// directories, and after an errno that ends a source only the first time.
fn fs() -> MemFs {
    let library = |name: &str| ObjectBuilder::library(name);
    base()
        .object("/bin/one", program().needed("liba.so").runpath("/a"))
        .object("/bin/other", program().needed("liba.so").runpath("/a:/b"))
        .object("/bin/two", program().needed("libb.so").needed("liba.so").runpath("/b:/a"))
        .object("/bin/rpath", program().needed("liba.so").needed("libb.so").rpath("/r:/a"))
        .object("/bin/file", program().needed("liba.so").runpath("/lib/libs.so/x:/a"))
        .object(
            "/bin/again",
            program().needed("libs.so").needed("liba.so").runpath("/lib/libs.so/x:/a"),
        )
        .object("/a/liba.so", library("liba.so").needed("libb.so").needed("libc.so").runpath("/b"))
        .object("/b/libb.so", library("libb.so").needed("libs.so"))
        .object("/r/libs.so", library("libs.so"))
        .object("/lib/libs.so", library("libs.so"))
        .object("/lib/libc.so", library("libc.so"))
}

#[test]
fn starts_that_share_results_have_the_same_objects_in_any_order() {
    let fs = fs();
    let programs = ["/bin/one", "/bin/other", "/bin/two", "/bin/rpath", "/bin/file", "/bin/again"];
    let environment = Environment::default();
    for facts in [facts(36), facts(44)].map(std::sync::Arc::new) {
        for first in 0..programs.len() {
            let found = FoundBefore::default();
            let (fs, facts) = (&fs, facts.clone());
            let starts = Starts { fs, facts, environment: &environment, found: Some(&found) };
            for path in programs.iter().cycle().skip(first).take(2 * programs.len()) {
                let open = || Subject::open(fs, (*path).into()).expect("the fixture's program");
                let plain =
                    closure::resolve(fs, open(), LD_SO.into(), starts.facts.clone(), &environment);
                let shared = starts.resolve(open(), LD_SO.into());
                let [plain, shared] =
                    [plain, shared].map(|it| it.expect("the fixture's loader").load);
                let of = |load: &crate::loader::load::Load| {
                    let objects = load.objects.iter().map(|object| object.path.clone());
                    let asked = load.resolutions.iter().map(|r| (r.needed_by, r.answer.clone()));
                    (objects.collect::<Vec<_>>(), asked.collect::<Vec<_>>(), load.scope.clone())
                };
                assert_eq!(of(&shared), of(&plain), "{path} after {}", programs[first]);
            }
        }
    }
}

#[test]
fn a_library_that_another_start_found_is_not_searched_for_again() {
    let (fs, facts, environment) = (fs(), facts(36).into(), Environment::default());
    let found = FoundBefore::default();
    let starts = Starts { fs: &fs, facts, environment: &environment, found: Some(&found) };
    let probes = |path: &str| {
        let subject = Subject::open(&fs, path.into()).expect("the fixture's program");
        starts.resolve(subject, LD_SO.into()).expect("the fixture's loader").load.probes.len()
    };
    let first = probes("/bin/one");
    assert_eq!((first > 4, probes("/bin/one")), (true, 0));
    // Only the search of the program itself.
    assert_eq!(probes("/bin/other"), 1);
}
