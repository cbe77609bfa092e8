//! Parses any bytes as the note, the run path and the needed strings of an object. Checks and plans
//! must end, and so must a walk that reads the note. The check must then accept the planned
//! answers.

#![no_main]

use becalm_core::closure::{self, Subject};
use becalm_core::elf::ObjectView;
use becalm_core::elf::resolution_note::records;
use becalm_core::facts::{Environment, Readers};
use becalm_core::loader::{GlibcVersion, Libc, LoaderFacts};
use becalm_core::search::Stores;
use becalm_core::strategy::planned::Outlook;
use becalm_core::strategy::verify::{self, Verdict};
use becalm_core::strategy::{Settings, Strategy, note, patchelf};
use becalm_testing::mem::{MemFs, ObjectBuilder};
use libfuzzer_sys::fuzz_target;

const LD_SO: &str = "/lib/ld.so";

fn facts() -> LoaderFacts {
    LoaderFacts {
        libc: Libc::Glibc(GlibcVersion { major: 2, minor: 41 }),
        system_dirs: vec!["/lib/".into()],
        cache_path: None,
        lib: "lib".into(),
        platform: None,
        hwcaps: vec!["x86-64-v2".into()],
        legacy_hwcaps: Vec::new(),
        hwcap_mask: 0,
        platform_bit: None,
        reads: Default::default(),
        no_exec_stack: false,
    }
}

fn world(note: &[u8], run_path: &[u8], needed: &[u8]) -> MemFs {
    let mut program = ObjectBuilder::program().interpreter(LD_SO).runpath(run_path);
    for name in needed.split(|&byte| byte == 0).take(16) {
        program = program.needed(name);
    }
    let mut view: ObjectView = program.needed("liba.so").into();
    view.notes.resolution = Some(note.to_vec());
    let library = ObjectBuilder::library;
    MemFs::new()
        .object(LD_SO, library("ld.so.1"))
        .object("/s/a/liba.so", library("liba.so"))
        .object("/s/b/liba.so", library("liba.so"))
        .object("/m/libb.so", library("libb.so"))
        .dir("/s/c/glibc-hwcaps")
        .object("/s/p/bin/prog", view)
}

fuzz_target!(|input: (&[u8], &[u8], &[u8])| {
    let (note, run_path, needed) = input;
    // An object's strings end at their NUL.
    let run_path = run_path.split(|&byte| byte == 0).next().unwrap_or_default();
    let fs = world(note, run_path, needed);
    let settings = Settings { stores: Stores::parse("/s".into()), ..Settings::default() };
    let subject = Subject::open(&fs, "/s/p/bin/prog".into()).expect("the program");
    let _ = verify::object(&fs, &subject, &settings);
    if let Some(descriptor) = patchelf::descriptor(&fs, &subject.view) {
        assert!(records(&descriptor).all(|record| record.is_ok()));
    }

    let reads = Readers { note: true, package_caches: vec!["/s".into()] };
    let environment = Environment { reads, ..Environment::default() };
    let walk = closure::resolve(&fs, subject.clone(), LD_SO.into(), facts(), &environment);
    assert!(walk.is_ok());

    let plan = note::plan(&fs, &subject, &settings);
    let outlook = Outlook::of(&fs, &plan);
    let after = outlook.over(&fs);
    let subject = Subject::open(&after, "/s/p/bin/prog".into()).expect("the program");
    let again = note::plan(&after, &subject, &settings);
    assert!(again.creations.is_empty() && again.files.iter().all(|file| file.edits.is_empty()));
    for checked in verify::object(&after, &subject, &settings) {
        assert!(
            checked.strategy != Strategy::Note || checked.verdict == Verdict::True,
            "{checked:?}"
        );
    }
});
