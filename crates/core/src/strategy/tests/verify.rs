//! Tests of the verdicts on applied strategies.

use super::absolute::{self, LD_SO, library, settings};
use crate::closure::Subject;
use crate::elf::ObjectView;
use crate::elf::resolution_note::NoteError;
use crate::fs::mem::ObjectBuilder;
use crate::fs::{FileSystem, MemFs};
use crate::strategy::Strategy;
use crate::strategy::planned::Outlook;
use crate::strategy::verify::{self, Checked, Verdict};
use crate::strategy::{farm, ldcache, note};

fn packages() -> MemFs {
    absolute::packages().dir("/m")
}

fn prog() -> ObjectBuilder {
    let program = ObjectBuilder::program().interpreter(LD_SO).needed("liba.so").needed("libb.so");
    program.runpath("/s/c/lib:/s/a/lib:/m:/s/b/lib")
}

fn with_note(fs: MemFs, note: &str) -> MemFs {
    let mut view: ObjectView = prog().into();
    view.notes.resolution = Some(note.as_bytes().to_vec());
    fs.object("/s/p/bin/prog", view)
}

fn subject(fs: &dyn FileSystem) -> Subject {
    Subject::open(fs, "/s/p/bin/prog".into()).expect("the fixture's program")
}

fn verdicts(fs: &dyn FileSystem) -> Vec<(Strategy, String, Verdict)> {
    let words = |c: Checked| (c.strategy, c.needed.to_string(), c.verdict);
    verify::object(fs, &subject(fs), &settings()).into_iter().map(words).collect()
}

fn of_note(fs: MemFs, note: &str) -> Vec<(String, Verdict)> {
    let fs = with_note(fs, note);
    verdicts(&fs).into_iter().map(|(_, needed, verdict)| (needed, verdict)).collect()
}

fn stale(says: Option<&str>, is: Option<&str>) -> Verdict {
    Verdict::Stale { says: says.map(Into::into), is: is.map(Into::into) }
}

#[test]
fn an_object_without_a_strategy_has_no_verdicts() {
    assert_eq!(verdicts(&packages().object("/s/p/bin/prog", prog())), []);
}

#[test]
fn the_plan_of_each_strategy_is_true() {
    let fs = packages().object("/s/p/bin/prog", prog());
    let object = subject(&fs);
    for (strategy, plan) in [
        (Strategy::Note, note::plan(&fs, &object, &settings())),
        (Strategy::Farm, farm::leaf(&fs, &object, &settings())),
        (Strategy::Ldcache, ldcache::plan(&fs, std::slice::from_ref(&object), &[], &settings())),
    ] {
        let found = verdicts(&Outlook::of(&fs, &plan).over(&fs));
        assert!(!found.is_empty());
        for (of, needed, verdict) in found {
            assert_eq!((of, verdict), (strategy, Verdict::True), "{needed}");
        }
    }
}

#[test]
fn a_note_of_patchelf_that_skips_a_mutable_directory_is_true_today() {
    let note = "liba.so\0=/s/a/lib/liba.so\0libb.so\0=/s/b/lib/libb.so\0\0";
    let verdict = of_note(packages(), note);
    assert_eq!(verdict[0].1, Verdict::True);
    assert_eq!(verdict[1].1, Verdict::Skips { says: "/m".into() });
    assert!(!verdict[1].1.is_finding());
    let later = packages().object("/m/libb.so", library("libb.so"));
    let is = stale(Some("/s/b/lib/libb.so"), Some("/m/libb.so"));
    assert_eq!(of_note(later, note)[1].1, is);
}

#[test]
fn answers_whose_file_is_gone_or_another_are_stale() {
    let fs = || packages().object("/s/z/liba.so", library("liba.so"));
    let note = "liba.so\0=/s/z/liba.so\0libb.so\0?/m:=/s/gone/libb.so\0\0";
    assert_eq!(
        of_note(fs(), note),
        [
            ("liba.so".into(), stale(Some("/s/z/liba.so"), Some("/s/a/lib/liba.so"))),
            ("libb.so".into(), stale(None, Some("/s/b/lib/libb.so")))
        ]
    );
}

#[test]
fn missing_superfluous_and_malformed_answers_are_detected() {
    assert_eq!(
        of_note(packages(), "libold.so\0=/s/a/lib/liba.so\0\0"),
        [
            ("libold.so".into(), Verdict::Superfluous),
            ("liba.so".into(), Verdict::Missing { is: "/s/a/lib/liba.so".into() }),
            ("libb.so".into(), Verdict::Missing { is: "/s/b/lib/libb.so".into() })
        ]
    );
    let broken = of_note(packages(), "liba.so\0=/s/a/lib/liba.so\0libb.so\0");
    assert_eq!(
        broken,
        [(String::new(), Verdict::Malformed { says: NoteError("ends too early").to_string() })]
    );
}

#[test]
fn an_absolute_needed_string_is_compared_with_the_run_path() {
    let with = |path: &str| {
        let object = ObjectBuilder::program().interpreter(LD_SO).needed(path);
        let fs = packages().object("/s/z/liba.so", library("liba.so"));
        let fs = fs.object("/s/p/bin/prog", object.runpath("/s/a/lib"));
        verdicts(&fs).remove(0).2
    };
    assert_eq!(with("/s/a/lib/liba.so"), Verdict::True);
    assert_eq!(with("/s/b/lib/libb.so"), Verdict::True);
    assert_eq!(with("/s/z/liba.so"), stale(Some("/s/z/liba.so"), Some("/s/a/lib/liba.so")));
    assert_eq!(with("/s/none/libx.so"), stale(None, None));
}

#[test]
fn a_farm_with_a_wrong_link_is_stale_and_one_without_a_link_misses_it() {
    let farm = "/s/p/lib/becalm-farm/bin/prog";
    let object = prog().runpath(format!("{farm}:/s/c/lib:/s/a/lib:/s/b/lib"));
    let fs = packages()
        .object("/s/z/liba.so", library("liba.so"))
        .object("/s/p/bin/prog", object)
        .link(format!("{farm}/liba.so"), "/s/z/liba.so");
    let says = format!("{farm}/liba.so");
    assert_eq!(
        verdicts(&fs),
        [
            (
                Strategy::Farm,
                "liba.so".to_owned(),
                stale(Some(says.as_str()), Some("/s/a/lib/liba.so"))
            ),
            (
                Strategy::Farm,
                "libb.so".to_owned(),
                Verdict::Missing { is: "/s/b/lib/libb.so".into() }
            )
        ]
    );
}

#[test]
fn a_farm_is_true_without_a_link_to_a_library_that_uses_origin() {
    let origin = library("liba.so").runpath("$ORIGIN/../plugins");
    let fs = packages().object("/s/a/lib/liba.so", origin).object("/s/p/bin/prog", prog());
    let plan = farm::leaf(&fs, &subject(&fs), &settings());
    let found = verdicts(&Outlook::of(&fs, &plan).over(&fs));
    assert_eq!(found, [(Strategy::Farm, "libb.so".to_owned(), Verdict::True)]);
}
