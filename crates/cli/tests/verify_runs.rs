//! Cases in which `becalm verify` was wrong once, and the flags of `becalm fix` and `undo` that
//! belong to them.

mod support;

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use becalm_testing::skip;
use serde_json::Value;
use support::chain::Store;
use support::store::{Store as IndexedStore, nothing_to_test_with, text};
use support::{Ran, becalm, cc, is_missing, no_compiler, run};

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
    // A process with a limit of memory below the file's length.
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v 2000000; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_becalm")]);
    let ran = run(command.args(["verify", "--store"]).arg(store.root()).arg(store.app()));
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

#[test]
fn the_original_of_a_long_edited_program_is_read_in_ranges() {
    /// Offset of the section headers: the bytes before them are a hole.
    const FAR: u64 = 5 << 30;
    if no_compiler() {
        return;
    }
    let store = Store::new();
    let app = store.app();
    let mut bytes = fs::read(&app).expect("readable");
    // `e_shoff`, and the headers, which end the file.
    let at = u64::from_le_bytes(bytes[40..48].try_into().expect("eight bytes")) as usize;
    if bytes[4] != 2 || cfg!(target_endian = "big") {
        skip("not a 64-bit little-endian machine");
        return;
    }
    let headers = bytes.split_off(at);
    bytes[40..48].copy_from_slice(&FAR.to_le_bytes());
    fs::write(&app, bytes).expect("written");
    let file = OpenOptions::new().write(true).open(&app).expect("opened");
    file.write_all_at(&headers, FAR).expect("written");
    drop(file);
    // A process with a limit of memory below the file's length.
    let limited = |arguments: &[&str]| {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -v 2000000; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_becalm")]);
        command.args(arguments).arg("--store").arg(store.root());
        run(command.arg(store.app()))
    };
    let ran = limited(&["fix", "--with", "absolute", "--in-place"]);
    assert_eq!((ran.code, ran.stdout.contains("1 file")), (Some(0), true), "{ran:?}");
    let ran = limited(&["verify", "--load"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("app: loads the same"), "{ran:?}");
}

#[test]
fn other_names_in_a_directory_of_a_dt_rpath_are_found() {
    if nothing_to_test_with() {
        return;
    }
    let store = IndexedStore::new();
    let (one, two, app) = (store.one("libone.so"), store.two("libtwo.so"), store.app());
    let dirs = [&two, &one].map(|library| text(library.parent().expect("a folder")));
    let run_path = format!("-Wl,--disable-new-dtags,-rpath,{}:{}", dirs[0], dirs[1]);
    let link = ["app.c", "-o", text(&app), &run_path, "-Wl,--no-as-needed", text(&one), text(&two)];
    cc(store.dir.path(), &link);
    store.make_index(&[]);
    let index = store.index();
    let verify = || run(&mut store.becalm(&["verify", "--json", text(&index)]));
    let ran = verify();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    fs::copy(&two, store.two("libnew.so")).expect("copied");
    let ran = verify();
    let report: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let difference = &report["indexes"][0]["differences"][0];
    assert_eq!(
        (ran.code, &difference["kind"], &difference["path"]),
        (Some(1), &"names".into(), &dirs[0].into()),
        "{ran:?}"
    );
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
    if is_missing("strace", "strace") {
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

#[test]
fn a_file_that_could_not_be_synced_counts_as_changed_and_keeps_its_index() {
    if nothing_to_test_with() {
        return;
    }
    if is_missing("strace", "strace") {
        return;
    }
    // The number of the sync after the change.
    for (number, more) in [(4, &[][..]), (5, &["--in-place"])] {
        let store = IndexedStore::new();
        let (root, app) = (store.root(), store.app());
        let inject = format!("inject=fsync:error=EIO:when={number}");
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync", "-e", &inject]);
        command.args([env!("CARGO_BIN_EXE_becalm"), "fix", "-j1", "--with", "audit", "--store"]);
        let ran = run(command.arg(root).arg(&app).args(more));
        if ran.stderr.contains("glibc-2.32") {
            skip("a glibc before 2.32");
            return;
        }
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains("written, but not synced"), "{ran:?}");
        assert!(ran.stdout.contains("1 file changed, 1 made"), "{ran:?}");
        assert!(ran.stdout.contains("misses -> 0 misses"), "{ran:?}");
        let started = run(&mut Command::new(&app));
        assert_eq!((started.stdout.as_str(), started.stderr.as_str()), ("one two\n", ""));
    }
}

fn document(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).expect("JSON")
}

/// Makes a store with a stale index: another `libone.so` is found first now.
fn with_stale_index() -> IndexedStore {
    let store = IndexedStore::new();
    store.make_index(&[]);
    fs::copy(store.one("libone.so"), store.two("libone.so")).expect("copied");
    store
}

#[test]
fn a_stale_index_beside_other_paths_is_a_finding() {
    if nothing_to_test_with() {
        return;
    }
    let store = with_stale_index();
    let (index, app, folder) = (store.index(), store.app(), store.path("folder"));
    fs::create_dir(&folder).expect("made");
    fs::copy(&index, folder.join("in-folder.so")).expect("copied");
    let alone = document(&run(&mut store.becalm(&["verify", "--json", text(&index)])));
    let found = &alone["indexes"][0]["differences"];
    assert!(!found.as_array().expect("differences").is_empty(), "{alone}");
    let beside = [
        vec![text(&index), text(&index)],
        vec![text(&index), text(&app)],
        vec![text(&app), text(&index)],
        vec![text(&folder)],
    ];
    for paths in beside {
        let ran = run(&mut store.becalm(&[&["verify", "--json"], &paths[..]].concat()));
        let report = document(&ran);
        assert_eq!(ran.code, Some(1), "{paths:?}: {ran:?}");
        assert_eq!(report["indexes"].as_array().map(Vec::len), Some(1), "{paths:?}: {report}");
        assert_eq!(&report["indexes"][0]["differences"], found, "{paths:?}");
        let ran = run(&mut store.becalm(&[&["verify"], &paths[..]].concat()));
        assert_eq!((ran.code, ran.stdout.contains("all true")), (Some(1), false), "{ran:?}");
    }
}

#[test]
fn the_index_of_a_program_with_dt_audit_is_compared() {
    if no_compiler() {
        return;
    }
    let store = Store::new();
    let ran = store.on(&["fix", "--with", "audit"], &store.app());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let index = store.app().with_file_name("app.becalm.so");
    let fresh = document(&verify(&store, &["--json"], &store.app()));
    assert_eq!(fresh["indexes"][0]["path"], text(&index), "{fresh}");
    assert_eq!(fresh["indexes"][0]["differences"].as_array().map(Vec::len), Some(0), "{fresh}");
    fs::copy(store.one(), store.root().join("bbb-two/lib/libone.so")).expect("copied");
    for path in [store.app(), store.root()] {
        let ran = verify(&store, &["--json"], &path);
        let report = document(&ran);
        assert_eq!((ran.code, report["indexes"].as_array().map(Vec::len)), (Some(1), Some(1)));
        let found = report["indexes"][0]["differences"].as_array().expect("differences");
        assert!(found.iter().any(|found| found["kind"] == "answer"), "{report}");
    }
    fs::remove_file(&index).expect("removed");
    let ran = verify(&store, &[], &store.app());
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stdout.contains("app.becalm.so: index, of "), "{ran:?}");
    assert!(ran.stdout.contains("damaged: not there"), "{ran:?}");
}

#[test]
fn a_truncated_index_is_named_as_damaged() {
    if nothing_to_test_with() {
        return;
    }
    let store = IndexedStore::new();
    store.make_index(&[]);
    let (index, other) = (store.index(), store.path("other.so"));
    let whole = fs::read(&index).expect("readable");
    let random = (0..20_usize).map(|at| (at * 7919 + 65) % whole.len());
    for cut in [0, 3, 17, 64, 100, 5000, whole.len() - 1].into_iter().chain(random) {
        fs::write(&index, &whole[..cut]).expect("written");
        let ran = run(&mut store.becalm(&["verify", text(&index)]));
        let words = (ran.stdout.contains("damaged"), ran.stdout.contains("all true"));
        assert_eq!((ran.code, words), (Some(1), (true, false)), "{cut}: {ran:?}");
        let ran = run(&mut store.becalm(&["verify", "--json", text(&index)]));
        let report = document(&ran);
        assert_eq!(report["damaged"][0]["path"], text(&index), "{cut}: {ran:?}");
        // Recognised by its content alone.
        if cut >= 64 {
            fs::write(&other, &whole[..cut]).expect("written");
            let ran = run(&mut store.becalm(&["verify", text(&other)]));
            assert_eq!((ran.code, ran.stdout.contains("damaged")), (Some(1), true), "{cut}");
        }
    }
    let middle = whole.len() - 4000;
    let mut changed = whole.clone();
    changed[middle..middle + 16].fill(0xA5);
    fs::write(&index, &changed).expect("written");
    let ran = run(&mut store.becalm(&["verify", text(&index)]));
    assert_eq!((ran.code, ran.stdout.contains("damaged")), (Some(1), true), "{ran:?}");
    // The remedy that `becalm doctor` prints works.
    fs::write(&index, &whole[..5000]).expect("written");
    store.make_index(&[]);
    let ran = run(&mut store.becalm(&["verify", text(&index)]));
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

#[test]
fn a_farm_or_cache_without_its_store_is_not_called_true() {
    if no_compiler() {
        return;
    }
    for strategy in ["farm", "ldcache"] {
        let store = Store::new();
        let ran = store.becalm(&["fix", "--with", strategy]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let root = store.root();
        let judged = run(becalm().args(["verify", "--store", text(&root), text(&root)]));
        assert_eq!((judged.code, judged.stdout.contains("all true")), (Some(0), true));
        let ran = run(becalm().args(["verify", text(&root)]));
        assert_eq!((ran.code, ran.stdout.contains("all true")), (Some(1), false), "{ran:?}");
        let hint = format!("--store {}\n", text(&root));
        assert!(ran.stdout.contains(strategy) && ran.stdout.contains(&hint), "{ran:?}");
        assert!(ran.stdout.contains("\nnothing else to compare ("), "{ran:?}");
        let report = document(&run(becalm().args(["verify", "--json", text(&root)])));
        let unjudged = &report["unjudged"][0];
        assert_eq!(
            (&unjudged["carrier"], &unjudged["store"]),
            (&strategy.into(), &text(&root).into())
        );
    }
}

#[test]
fn nothing_to_compare_is_said_so() {
    let ran = run(becalm().args(["verify", "/bin/sh"]));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.stdout.starts_with("nothing to compare: no strategy and no index here "),
        "{ran:?}"
    );
    let text = tempfile::NamedTempFile::new().expect("made");
    fs::write(text.path(), "root:x:0:0\n").expect("written");
    let ran = run(becalm().arg("verify").arg(text.path()));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), "nothing was compared\n"), "{ran:?}");
    let help = run(becalm().args(["verify", "--help"]));
    assert!(help.stdout.contains("Indexes, objects with a note"), "{help:?}");
}
