//! `becalm verify` where it was wrong once, and flags of `becalm fix` and `undo` that go with it.

mod support;

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use support::chain::Store;
use support::{Ran, becalm, cc, no_compiler, run, skip};

/// `e_machine`, and the machine of Alpha there (gABI, chapter 4).
const ALPHA: (usize, [u8; 2]) = (18, [0x26, 0x90]);

fn verify(store: &Store, more: &[&str], path: &Path) -> Ran {
    store.on(&[&["verify"], more].concat(), path)
}

#[test]
fn a_library_of_a_machine_without_a_loader_here_is_verified() {
    if no_compiler() {
        return;
    }
    let store = Store::new();
    for library in [store.one(), store.two()] {
        let mut bytes = fs::read(&library).expect("readable");
        bytes[ALPHA.0..ALPHA.0 + 2].copy_from_slice(&ALPHA.1);
        fs::write(&library, bytes).expect("written");
    }
    let ran = store.on(&["fix", "--with", "note", "--libc", "glibc-2.36"], &store.two());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let ran = verify(&store, &[], &store.two());
    assert_eq!((ran.code, ran.stdout.contains("all true")), (Some(0), true), "{ran:?}");
}

#[test]
fn what_a_program_loads_under_its_own_audit_module_is_compared() {
    if no_compiler() {
        return;
    }
    let store = Store::new();
    let ran = store.on(&["fix", "--with", "audit"], &store.app());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let ran = verify(&store, &["--load"], &store.app());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("loads the same 3 libraries in the same order"), "{ran:?}");
}

#[test]
fn a_program_named_without_a_slash_is_loaded() {
    if no_compiler() {
        return;
    }
    let store = Store::new();
    let mut command = becalm();
    let bin = store.app().parent().expect("a folder").to_owned();
    command.current_dir(bin).args(["verify", "--load", "--store"]).arg(store.root());
    let ran = run(command.arg("app"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("app: loads the same"), "{ran:?}");
}

#[test]
fn a_long_file_is_not_read_to_see_that_it_is_no_index() {
    if no_compiler() {
        return;
    }
    let store = Store::new();
    let app = OpenOptions::new().write(true).open(store.app()).expect("opened");
    app.set_len(5 << 30).expect("a sparse file");
    // A process that may have less memory than the file is long.
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v 2000000; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_becalm")]);
    let ran = run(command.args(["verify", "--store"]).arg(store.root()).arg(store.app()));
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

#[test]
fn absolute_paths_are_found_along_the_library_path_that_is_named() {
    if no_compiler() {
        return;
    }
    let store = Store::new();
    let root = store.root();
    fs::create_dir_all(root.join("fff-plain/bin")).expect("made");
    fs::write(root.join("p.c"), "int main(void) { return 0; }\n").expect("written");
    let libraries = ["aaa-one/lib/libone.so"];
    let plain = ["p.c", "-o", "fff-plain/bin/plain", "-Wl,--no-as-needed"];
    cc(&root, &[&plain[..], &libraries].concat());
    let (plain, list) = (root.join("fff-plain/bin/plain"), root.join("aaa-one/lib"));
    let list = list.to_str().expect("UTF-8");
    let fix = ["fix", "--with", "absolute", "--json", "--dry-run", "--library-path", list];
    let ran = store.on(&fix, &plain);
    let report: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let answers = report["plan"][0]["answers"].as_array().expect("answers");
    let one = answers.iter().find(|answer| answer["needed"] == "libone.so").expect("is needed");
    assert_eq!(one["exact"], store.one().to_str().expect("UTF-8"), "{report}");
}

#[test]
fn a_file_that_is_not_a_loader_is_named_so() {
    if no_compiler() {
        return;
    }
    let store = Store::new();
    let text = store.root().join("text");
    fs::write(&text, "no loader\n").expect("written");
    let mut command = becalm();
    command.args(["check", "--libc", "glibc-2.36", "--loader"]).arg(&text);
    let ran = run(command.arg(store.two()));
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("not a loader of glibc"), "{ran:?}");
    assert!(!ran.stderr.contains("--libc"), "{ran:?}");
}

#[test]
fn undo_on_a_full_disk_advises_to_write_in_place() {
    if no_compiler() {
        return;
    }
    if Command::new("strace").arg("-V").output().is_err() {
        skip("no strace");
        return;
    }
    let store = Store::new();
    let before = store.content();
    let ran = store.on(&["fix", "--with", "absolute", "--in-place"], &store.app());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let calls = "copy_file_range,pwrite64,pwritev,ftruncate,fallocate";
    let inject = format!("inject={calls}:error=ENOSPC");
    let mut command = Command::new("strace");
    command.args(["-f", "-o", "/dev/null", "-e", &inject, env!("CARGO_BIN_EXE_becalm"), "undo"]);
    let ran = run(command.arg(store.app()));
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("--in-place"), "{ran:?}");
    assert_eq!(store.on(&["undo", "--in-place"], &store.app()).code, Some(0));
    assert_eq!(store.content(), before);
}
