//! `becalm index --program`: the symbol bindings of one program, and what uses them.

mod support;

use std::fs;

use support::store::{Store, let_the_clock_pass, nothing_to_test_with, text};
use support::{cc, run};

/// A program in a folder of its own, outside the stores, with a library that it calls.
fn program(store: &Store) -> std::path::PathBuf {
    fs::create_dir_all(store.path("place/lib")).unwrap();
    library(store, "int value = 1; int *pointer = &value; int called(void) { return *pointer; }\n");
    let main =
        "#include <stdio.h>\nint called(void); int main(void) { printf(\"%d\\n\", called()); }\n";
    store.source("plain.c", main);
    let rpath = format!("-Wl,-rpath,{}", store.path("place/lib").display());
    cc(store.dir.path(), &["-o", "place/plain", "plain.c", "place/lib/libplain.so", &rpath]);
    let_the_clock_pass();
    store.path("place/plain")
}

fn library(store: &Store, source: &str) {
    store.source("library.c", source);
    let soname = "-Wl,-soname,libplain.so";
    cc(store.dir.path(), &["-shared", "-fPIC", soname, "-o", "place/lib/libplain.so", "library.c"]);
}

/// The reason or the outcome that the module logs of a start.
fn outcome(store: &Store, arguments: &[&str]) -> String {
    store.logged("bindings", "1\n", arguments)
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
    let_the_clock_pass();
    let started = outcome(&store, &["run", "--index", index, "--", program]);
    assert!(started.starts_with("declined\tother-"), "{started}");
    let verified = run(&mut store.becalm(&["verify", index]));
    assert_eq!(verified.code, Some(1), "{verified:?}");
    assert!(verified.stdout.contains("its symbols bind differently"), "{verified:?}");
    let again = run(&mut store.becalm(&["index", "--update", "-o", index]));
    assert_eq!(again.code, Some(0), "{again:?}");
    let started = outcome(&store, &["run", "--index", index, "--", program]);
    assert!(started.starts_with("applied\t"), "{started}");
}

/// A library with so many relocations that programs are bound without being named.
fn many(store: &Store) {
    let source = "int value = 1; int *pointers[3000] = { [0 ... 2999] = &value };\n\
                  int called(void) { return *pointers[2000]; }\n";
    library(store, source);
    let_the_clock_pass();
}

#[test]
fn fix_with_audit_binds_the_program_as_it_is_with_its_entry() {
    if nothing_to_test_with() || !cfg!(target_arch = "x86_64") {
        return;
    }
    let store = Store::new();
    let program = program(&store);
    many(&store);
    let before = fs::read(&program).expect("read");
    let fix = ["fix", "--with", "audit", "--json", text(&program)];
    let fixed = run(&mut store.becalm(&fix));
    if fixed.code == Some(2) && fixed.stderr.contains("glibc-2.32") {
        becalm_testing::skip("a glibc before 2.32");
        return;
    }
    assert_eq!(fixed.code, Some(0), "{fixed:?}");
    let log = store.path("log");
    let start = || {
        let _ = fs::remove_file(&log);
        let mut command = std::process::Command::new(&program);
        run(command.env("BECALM", format!("log:{}", log.display())))
    };
    assert_eq!(start().stdout, "1\n");
    let said = fs::read_to_string(&log).expect("a log");
    assert!(said.contains("\tbindings\t0\tapplied\t"), "{said}");
    let index = store.path("place/plain.becalm.so");
    // Another time there is nothing to do.
    let (once, index_once) = (fs::read(&program).expect("read"), fs::read(&index).expect("read"));
    assert_eq!(run(&mut store.becalm(&fix)).code, Some(0));
    assert_eq!(fs::read(&program).expect("read"), once);
    assert!(fs::read(&index).expect("read") == index_once);
    assert_eq!(run(&mut store.becalm(&["undo", text(&program)])).code, Some(0));
    assert_eq!(fs::read(&program).expect("read"), before);
    assert!(!index.exists());
}

#[test]
fn an_index_that_run_keeps_under_a_preload_is_verified_with_it() {
    if nothing_to_test_with() || !cfg!(target_arch = "x86_64") {
        return;
    }
    let store = Store::new();
    let program = program(&store);
    many(&store);
    store.source("preload.c", "int called(void) { return 7; }\n");
    cc(store.dir.path(), &["-shared", "-fPIC", "-o", "place/preload.so", "preload.c"]);
    let_the_clock_pass();
    let preload = store.path("place/preload.so");
    let started = |preload: Option<&std::path::Path>| {
        let log = store.path("log");
        let _ = fs::remove_file(&log);
        let mut command = store.becalm(&["run", "--strict", "--", text(&program)]);
        command.env("BECALM", format!("log:{}", log.display()));
        preload.map(|path| command.env("LD_PRELOAD", path));
        let ran = run(&mut command);
        let said = fs::read_to_string(&log).unwrap_or_default();
        assert!(said.contains("\tbindings\t0\tapplied\t"), "{said}");
        ran.stdout
    };
    assert_eq!(started(Some(&preload)), "7\n");
    let kept = || {
        let entries = fs::read_dir(store.path("home/.cache/becalm/programs")).expect("a cache");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        paths.filter(|path| path.extension().is_some_and(|end| end == "so")).collect::<Vec<_>>()
    };
    let verify =
        |index: &std::path::Path| run(&mut store.becalm(&["verify", "--load", text(index)]));
    let first = kept();
    assert_eq!(first.len(), 1);
    let verified = verify(&first[0]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
    // Without the preload it is another start, which has an index of its own.
    assert_eq!(started(None), "1\n");
    assert_eq!(kept().len(), 2);
    assert!(kept().iter().all(|index| verify(index).code == Some(0)));
}

#[test]
fn an_index_made_under_a_preload_binds_a_start_with_it_and_one_without() {
    if nothing_to_test_with() || !cfg!(target_arch = "x86_64") {
        return;
    }
    let store = Store::new();
    let (program, index) = (program(&store), store.path("bound.so"));
    let (program, index) = (text(&program), text(&index));
    let preload = |name: &str, source: &str| {
        store.source("preload.c", source);
        cc(store.dir.path(), &["-shared", "-fPIC", "-o", &format!("place/{name}"), "preload.c"]);
        store.path(&format!("place/{name}"))
    };
    let known = preload("known.so", "int called(void) { return 7; }\n");
    let unknown = preload("unknown.so", "int called(void) { return 8; }\n");
    let_the_clock_pass();
    let becalm = |arguments: &[&str], preload: Option<&std::path::Path>| {
        let mut command = store.becalm(arguments);
        command.env("BECALM", format!("log:{}", store.path("log").display()));
        preload.map(|path| command.env("LD_PRELOAD", path));
        run(&mut command)
    };
    let check = || {
        for (preload, stdout, expected) in [
            (Some(&known), "7\n", "applied\t"),
            (None, "1\n", "applied\t"),
            (Some(&unknown), "8\n", "declined\tother-objects\t"),
        ] {
            let _ = fs::remove_file(store.path("log"));
            let preload = preload.map(std::path::PathBuf::as_path);
            let ran = becalm(&["run", "--index", index, "--", program], preload);
            assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), stdout), "{ran:?}");
            let said = fs::read_to_string(store.path("log")).expect("a log");
            assert!(said.contains(&format!("\tbindings\t0\t{expected}")), "{said}");
            let json = becalm(&["check", "--json", "--index", index, program], preload).stdout;
            let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
            let is_applied = json["programs"][0]["indexed"]["not_applied"].is_null();
            assert_eq!(is_applied, expected.starts_with("applied"), "{json}");
        }
        let verified = run(&mut store.becalm(&["verify", "--load", "--json", index]));
        assert_eq!(verified.code, Some(0), "{verified:?}");
    };
    let made = becalm(&["index", "--json", "--program", program, "-o", index], Some(&known));
    assert_eq!(made.code, Some(0), "{made:?}");
    let json: serde_json::Value = serde_json::from_str(&made.stdout).expect("JSON");
    assert_eq!(json["bindings"]["programs"], 1, "{json}");
    check();
    // Brought up to date without the preload, it is still for both.
    library(&store, "int other, value = 1; int called(void) { return value; }\n");
    let_the_clock_pass();
    assert_eq!(run(&mut store.becalm(&["index", "--update", "-o", index])).code, Some(0));
    check();
}

#[test]
fn an_index_of_an_image_binds_another_copy_of_its_files_and_no_other_files() {
    if nothing_to_test_with() || !cfg!(target_arch = "x86_64") {
        return;
    }
    let store = Store::new();
    let (program, index) = (program(&store), store.path("bound.so"));
    let (program, index) = (text(&program), text(&index));
    let owner = std::os::unix::fs::MetadataExt::uid(&fs::metadata(program).expect("there"));
    if owner != 0 {
        becalm_testing::skip("files of an image are root's; not run as root");
        return;
    }
    let path = store.path("place/lib/libplain.so");
    let modified = fs::metadata(&path).and_then(|facts| facts.modified()).expect("a time");
    // As a pull does it: another inode, the same content and times of modification.
    let copy = |time: std::time::SystemTime| {
        let folder = fs::File::open(store.path("place/lib")).expect("opened");
        let of_folder = folder.metadata().and_then(|facts| facts.modified()).expect("a time");
        let other = store.path("place/lib/other.so");
        fs::copy(&path, &other).expect("copied");
        fs::File::open(&other).and_then(|file| file.set_modified(time)).expect("set");
        fs::rename(&other, &path).expect("renamed");
        folder.set_modified(of_folder).expect("set");
        let_the_clock_pass();
    };
    let started = || outcome(&store, &["run", "--index", index, "--", program]);
    // Without `--image` the tables of the copy are compared.
    for arguments in [&[][..], &["--image"]] {
        let line = [&["index", "--program", program, "-o", index], arguments].concat();
        assert_eq!(run(&mut store.becalm(&line)).code, Some(0));
        assert!(started().starts_with("applied\t"));
        copy(modified);
        let said = started();
        assert!(said.starts_with("applied\t"), "{arguments:?}: {said}");
    }
    assert_eq!(run(&mut store.becalm(&["verify", index])).code, Some(0));
    copy(modified + std::time::Duration::from_secs(1));
    assert!(started().starts_with("declined\tother-file"));
    assert_eq!(run(&mut store.becalm(&["verify", index])).code, Some(1));
    // Brought up to date, it stays one of an image.
    assert_eq!(run(&mut store.becalm(&["index", "--update", "-o", index])).code, Some(0));
    copy(modified + std::time::Duration::from_secs(1));
    assert!(started().starts_with("applied\t"));
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    fs::set_permissions(&path, open).expect("set");
    assert!(started().starts_with("declined\tother-file"));
}

#[test]
fn check_shows_what_an_index_does_for_a_program() {
    if nothing_to_test_with() || !cfg!(target_arch = "x86_64") {
        return;
    }
    let store = Store::new();
    let (program, index) = (program(&store), store.path("bound.so"));
    let (program, index) = (text(&program), text(&index));
    let made = run(&mut store.becalm(&["index", "--program", program, "-o", index]));
    assert_eq!(made.code, Some(0), "{made:?}");
    let check = |more: &[&str]| {
        let ran = run(&mut store.becalm(&[&["check", "--index", index, program], more].concat()));
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran.stdout
    };
    let json: serde_json::Value = serde_json::from_str(&check(&["--json"])).expect("JSON");
    let indexed = &json["programs"][0]["indexed"];
    let answers = indexed["answers"].as_array().expect("answers");
    let of_library = answers.iter().find(|answer| answer["needed"] == "libplain.so");
    let path = store.path("place/lib/libplain.so");
    assert_eq!(of_library.expect("an answer")["path"], text(&path), "{indexed}");
    assert_eq!(indexed["not_applied"], serde_json::Value::Null, "{indexed}");
    assert!(indexed["bindings"]["bound"].as_u64() > Some(50), "{indexed}");
    assert!(check(&[]).contains("from the index"));
    library(&store, "int other, value = 1; int called(void) { return value; }\n");
    assert!(check(&[]).contains("is not as it was indexed"), "{}", check(&[]));
    let refused = run(&mut store.becalm(&["check", "--index", program, program]));
    assert_eq!(refused.code, Some(2), "{refused:?}");
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
        // Of a session that has the index already.
        run(command.env("BECALM", switches).env("LD_AUDIT", &index)).stdout
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
