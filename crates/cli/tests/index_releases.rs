//! Loaders of releases that call no audit module, or not where it would help: becalm refuses them
//! and prints the reason. Tests skip machines for which this machine has no loader.
//!
//! A copy of this machine's loader with another release in its bytes serves as an old one: becalm
//! finds the release in the loader's bytes and in its output.

mod support;

use std::fs;
use std::path::Path;
use std::process::Command;

use becalm_testing::skip;
use serde_json::Value;
use support::store::{Store, nothing_to_test_with, text};
use support::{assert_refused, cc, run};

/// A store whose program names a loader of the release `says`.
fn with_loader(says: &str) -> Store {
    let store = Store::new();
    let bytes = fs::read(store.app()).expect("read");
    let view = becalm_core::elf::parse(bytes.as_slice()).expect("an object");
    let usual = view.interpreter.expect("a loader").to_string();
    let mut loader = fs::read(&usual).expect("read");
    let banner = b" release version ";
    let at = find(&loader, banner).expect("a release") + banner.len();
    let own = loader[at..at + 4].to_vec();
    assert!(own.starts_with(b"2."), "{own:?}");
    for at in 0..loader.len() - 4 {
        if loader[at..at + 4] == own {
            loader[at..at + 4].copy_from_slice(says.as_bytes());
        }
    }
    let place = store.path("ld.so");
    fs::copy(&usual, &place).expect("copied");
    fs::write(&place, loader).expect("written");
    let (one, two) = (store.one("libone.so"), store.two("libtwo.so"));
    let dirs = [&two, &one].map(|path| text(path.parent().expect("a folder")).to_owned());
    let run_path = format!("-Wl,--enable-new-dtags,-rpath,{}", dirs.join(":"));
    let named = format!("-Wl,--dynamic-linker={}", text(&place));
    let app = store.app();
    let link = [&run_path, "-Wl,--no-as-needed", text(&one), text(&two), &named];
    cc(store.dir.path(), &[&["app.c", "-o", text(&app)][..], &link].concat());
    assert_eq!(run(&mut Command::new(&app)).stdout, "one two\n");
    store
}

fn find(bytes: &[u8], pattern: &[u8]) -> Option<usize> {
    (0..bytes.len() - pattern.len()).find(|&at| bytes[at..].starts_with(pattern))
}

/// Runs `becalm run --strict` without an index, then `becalm fix --with audit`.
fn attempts(store: &Store) -> [support::Ran; 2] {
    let (app, root) = (store.app(), store.root());
    let fix = ["fix", "--with", "audit", "--store", text(&root), text(&app)];
    [run(&mut store.becalm(&["run", "--strict", "--", text(&app)])), run(&mut store.becalm(&fix))]
}

#[test]
fn before_2_31_run_refuses_and_names_the_release() {
    if nothing_to_test_with() {
        return;
    }
    let store = with_loader("2.28");
    let [started, fixed] = attempts(&store);
    assert_refused(&started, "glibc-2.28");
    let why = "glibc-2.28 does not support DT_AUDIT; it needs glibc-2.32";
    assert!(fixed.code == Some(2) && fixed.stderr.contains(why), "{fixed:?}");
    let kept = store.path("home/.cache/becalm/programs");
    let indexes = kept.read_dir().into_iter().flatten().flatten();
    let is_index = |path: &Path| path.extension().is_some_and(|end| end == "so");
    assert!(!indexes.map(|entry| entry.path()).any(|path| is_index(&path)), "an index was made");
}

#[test]
fn in_2_31_run_calms_and_a_dt_audit_entry_is_refused() {
    if nothing_to_test_with() {
        return;
    }
    let [started, fixed] = attempts(&with_loader("2.31"));
    assert_eq!((started.code, started.stdout.as_str()), (Some(0), "one two\n"), "{started:?}");
    let why = "glibc-2.31 does not support DT_AUDIT; it needs glibc-2.32";
    assert!(fixed.code == Some(2) && fixed.stderr.contains(why), "{fixed:?}");
}

#[test]
fn from_2_32_on_both_are_taken() {
    if nothing_to_test_with() {
        return;
    }
    let [started, fixed] = attempts(&with_loader("2.32"));
    assert_eq!((started.code, started.stdout.as_str()), (Some(0), "one two\n"), "{started:?}");
    assert_eq!(fixed.code, Some(0), "{fixed:?}");
}

#[test]
fn a_store_of_programs_that_no_index_calms_is_not_indexed() {
    if nothing_to_test_with() {
        return;
    }
    let refused = |store: &Store, libc: &str| {
        let (root, index) = (store.root(), store.index());
        let ran = run(&mut store.becalm(&["index", text(&root), "-o", text(&index)]));
        assert!(ran.code == Some(2) && ran.stderr.contains(libc), "{ran:?}");
        assert!(!index.exists());
    };
    refused(&with_loader("2.28"), "an index has no effect on glibc-2.28");
    let store = Store::new();
    let app = store.app();
    let mut compile = Command::new("musl-gcc");
    compile.current_dir(store.dir.path()).args(["one.c", "two.c", "app.c", "-o", text(&app)]);
    if !compile.output().is_ok_and(|made| made.status.success()) {
        skip("no musl-gcc (Debian: musl-tools)");
        return;
    }
    refused(&store, "an index has no effect on musl");
}

#[test]
fn a_library_of_a_machine_without_a_loader_here_is_counted_and_no_error() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let library = store.two("libforeign.so");
    let mut bytes = fs::read(store.path("other/libone.so")).expect("a library");
    let (machine, name) = if bytes[18] == 0x16 { (62, "x86_64") } else { (0x16, "s390x") };
    bytes[18..20].copy_from_slice(&u16::to_ne_bytes(machine));
    fs::write(&library, &bytes).expect("written");
    let made = store.make_index(&[]);
    let other = serde_json::json!({ "machine": name, "objects": 1 });
    assert_eq!(made["other_machines"], Value::from(vec![other]), "{made}");
}
