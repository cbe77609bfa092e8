//! `becalm index --program`: the symbol bindings of one program, and what uses them.

mod support;

use std::fs;

use support::store::{Store, nothing_to_test_with, text};
use support::{cc, run};

/// A program in a folder of its own, outside the stores, with a library that it calls.
fn program(store: &Store) -> std::path::PathBuf {
    fs::create_dir(store.path("place")).unwrap();
    library(store, "int value = 1; int *pointer = &value; int called(void) { return *pointer; }\n");
    let main =
        "#include <stdio.h>\nint called(void); int main(void) { printf(\"%d\\n\", called()); }\n";
    store.source("plain.c", main);
    let rpath = format!("-Wl,-rpath,{}", store.path("place").display());
    cc(store.dir.path(), &["-o", "place/plain", "plain.c", "place/libplain.so", &rpath]);
    settle();
    store.path("place/plain")
}

fn library(store: &Store, source: &str) {
    store.source("library.c", source);
    let soname = "-Wl,-soname,libplain.so";
    cc(store.dir.path(), &["-shared", "-fPIC", soname, "-o", "place/libplain.so", "library.c"]);
}

/// Lets files become older than the clock's grain, within which no file is trusted.
fn settle() {
    std::thread::sleep(std::time::Duration::from_millis(250));
}

/// The reason or the outcome that the module logs of a start.
fn outcome(store: &Store, arguments: &[&str]) -> String {
    let log = store.path("log");
    let _ = fs::remove_file(&log);
    let mut command = store.becalm(arguments);
    command.env("BECALM", format!("log:{}", log.display()));
    let ran = run(&mut command);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "1\n"), "{ran:?}");
    let said = fs::read_to_string(&log).unwrap_or_default();
    let line = said.lines().find_map(|line| Some(line.split_once("\tbindings\t0\t")?.1));
    line.unwrap_or("nothing").to_owned()
}

#[test]
fn a_program_of_usr_is_indexed_bound_verified_and_switched_off() {
    if nothing_to_test_with() || !cfg!(target_arch = "x86_64") {
        return;
    }
    let store = Store::new();
    let (program, index) = (program(&store), store.path("bound.so"));
    let (program, index) = (text(&program), text(&index));
    let made = run(&mut store.becalm(&["index", "--json", "--program", program, "-o", index]));
    assert_eq!(made.code, Some(0), "{made:?}");
    let json: serde_json::Value = serde_json::from_str(&made.stdout).unwrap();
    assert_eq!(json["bindings"]["programs"], 1, "{json}");
    assert_eq!(json["bindings"]["not_bound"].as_array().map(Vec::len), Some(0), "{json}");
    assert!(json["bindings"]["bound"].as_u64() > Some(50), "{json}");
    let started = outcome(&store, &["run", "--index", index, "--", program]);
    assert!(started.starts_with("applied\t"), "{started}");
    let started = outcome(&store, &["run", "--no-bind", "--index", index, "--", program]);
    assert_eq!(started, "declined\tnobind\t");
    assert_eq!(run(&mut store.becalm(&["verify", index])).code, Some(0));
    let again = run(&mut store.becalm(&["index", "--update", "-o", index]));
    assert!(again.stdout.contains("is up to date"), "{again:?}");
    // Another library: the loader binds, verify reports it, an update binds it again.
    library(&store, "int other, value = 1; int called(void) { return value; }\n");
    settle();
    let started = outcome(&store, &["run", "--index", index, "--", program]);
    assert!(started.starts_with("declined\tother-"), "{started}");
    let verified = run(&mut store.becalm(&["verify", index]));
    assert_eq!(verified.code, Some(1), "{verified:?}");
    assert!(verified.stdout.contains("its symbols bind otherwise"), "{verified:?}");
    let again = run(&mut store.becalm(&["index", "--update", "-o", index]));
    assert_eq!(again.code, Some(0), "{again:?}");
    let started = outcome(&store, &["run", "--index", index, "--", program]);
    assert!(started.starts_with("applied\t"), "{started}");
}

#[test]
fn env_switches_bindings_off_and_undo_takes_that_back() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    store.make_index(&[]);
    let index = store.index();
    let env = |further: &[&str], switches: &str| {
        let mut command = store.becalm(&[&["env", "--index", text(&index)], further].concat());
        run(command.env("BECALM", switches)).stdout
    };
    assert!(env(&["--no-bind"], "log:/l").contains("export BECALM='log:/l,nobind'"));
    assert!(!env(&[], "log:/l").contains("BECALM"));
    assert!(env(&["--undo"], "log:/l,nobind").contains("export BECALM='log:/l'"));
    assert!(env(&["--undo"], "nobind").contains("unset BECALM"));
}

#[test]
fn programs_of_two_machines_are_no_index() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let program = program(&store);
    let mut bytes = fs::read(&program).unwrap();
    // e_machine: AArch64.
    bytes[18..20].copy_from_slice(&183_u16.to_ne_bytes());
    let other = store.path("foreign");
    fs::write(&other, bytes).unwrap();
    let index = store.path("two.so");
    let arguments =
        ["index", "-o", text(&index), "--program", text(&program), "--program", text(&other)];
    let ran = run(&mut store.becalm(&arguments));
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("becalm index --program"), "{ran:?}");
    assert!(!index.exists());
}
