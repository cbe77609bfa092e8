//! The number of names under which `becalm index` has an object, and the names of index files.

mod support;

use std::fs;

use support::run;
use support::store::{Store, json, let_the_clock_pass, nothing_to_test_with, text};

#[test]
fn libraries_that_need_each_other_in_a_circle_by_origin_are_indexed_by_few_names() {
    if nothing_to_test_with() {
        return;
    }
    let dir = tempfile::tempdir().expect("a scratch directory");
    for sub in ["a", "b"] {
        fs::create_dir(dir.path().join(sub)).expect("made");
    }
    fs::write(dir.path().join("l.c"), "").expect("written");
    let library = |to: &str, more: &[&str]| {
        let soname = format!("-Wl,-soname,{}", &to[2..]);
        let first = ["-shared", "-fPIC", "-Wl,--no-as-needed", &soname, "l.c", "-o", to];
        support::cc(dir.path(), &[&first[..], more].concat());
    };
    library("a/libtwo.so", &[]);
    library("b/libone.so", &["-Wl,-rpath,$ORIGIN/../a", "a/libtwo.so"]);
    library("a/libtwo.so", &["-Wl,-rpath,$ORIGIN/../b", "b/libone.so"]);
    let index = dir.path().join("index.so");
    let arguments = ["index", text(dir.path()), "-o", text(&index), "--json"];
    let report = json(&run(support::becalm().args(arguments).env("HOME", dir.path())));
    let objects = report["objects"].as_u64().expect("a count");
    assert!(objects < 100, "{report}");
}

/// An update leaves out the same surplus names of a library as a new index.
#[test]
fn an_update_of_libraries_in_a_circle_knows_them_by_as_few_names_as_a_new_index() {
    if nothing_to_test_with() {
        return;
    }
    let dir = tempfile::tempdir().expect("a scratch directory");
    for sub in ["tree", "tree/a", "tree/b", "tree/c"] {
        fs::create_dir(dir.path().join(sub)).expect("made");
    }
    fs::write(dir.path().join("l.c"), "").expect("written");
    let library = |to: &str, more: &[&str]| {
        let soname = format!("-Wl,-soname,{}", to.rsplit('/').next().expect("a name"));
        let first = ["-shared", "-fPIC", "-Wl,--no-as-needed,--disable-new-dtags", &soname, "l.c"];
        support::cc(dir.path(), &[&first[..], &["-o", to], more].concat());
    };
    library("tree/a/libtwo.so", &[]);
    library("tree/b/libone.so", &["-Wl,-rpath,$ORIGIN/../a", "tree/a/libtwo.so"]);
    library("tree/a/libtwo.so", &["-Wl,-rpath,$ORIGIN/../b", "tree/b/libone.so"]);
    let tree = dir.path().join("tree");
    let becalm = |arguments: &[&str]| {
        let_the_clock_pass();
        run(support::becalm().args(arguments).env("HOME", dir.path()))
    };
    let [index, other] = ["index.so", "other.so"].map(|name| dir.path().join(name));
    json(&becalm(&["index", text(&tree), "-o", text(&index), "--json"]));
    library("tree/c/libthree.so", &["-Wl,-rpath,$ORIGIN/../a", "tree/a/libtwo.so"]);
    let updated = json(&becalm(&["index", "--update", "-o", text(&index), "--json"]));
    let new = json(&becalm(&["index", text(&tree), "-o", text(&other), "--json"]));
    assert!(updated["kept"].as_u64() > Some(0), "{updated}");
    assert_eq!(updated["objects"], new["objects"]);
    let verified = becalm(&["verify", text(&index)]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
}

#[test]
fn an_index_in_the_tree_is_no_object_of_the_tree() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let (root, index) = (store.root(), store.root().join("index.so"));
    let index_it = || {
        let_the_clock_pass();
        let made = run(&mut store.becalm(&["index", text(&root), "-o", text(&index), "--json"]));
        json(&made)
    };
    let (first, second) = (index_it(), index_it());
    assert_eq!(first["objects"], second["objects"]);
    assert_eq!(second["other_machines"].as_array().map(Vec::len), Some(0), "{second}");
}

#[test]
fn an_index_that_is_missing_is_reported_once() {
    let ran = run(support::becalm().args(["env", "--index", "/nonexistent/index.so"]));
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert_eq!(ran.stderr.matches("No such file").count(), 1, "{ran:?}");
}

#[test]
fn a_session_of_a_named_index_is_undone_without_its_name() {
    if nothing_to_test_with() {
        return;
    }
    let dir = tempfile::tempdir().expect("a scratch directory");
    fs::write(dir.path().join("l.c"), "").expect("written");
    support::cc(
        dir.path(),
        &["-shared", "-fPIC", "-Wl,-soname,libone.so", "l.c", "-o", "libone.so"],
    );
    fs::write(dir.path().join("p.c"), "int main(void) { return 0; }").expect("written");
    let rpath = "-Wl,-rpath,$ORIGIN";
    support::cc(dir.path(), &["p.c", "-Wl,--no-as-needed", "libone.so", rpath, "-o", "program"]);
    let index = dir.path().join("index.so");
    let made = run(support::becalm()
        .args(["index", text(dir.path()), "-o", text(&index)])
        .env("HOME", dir.path()));
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    let becalm = env!("CARGO_BIN_EXE_becalm");
    let script = format!(
        "eval \"$({becalm} env --index '{0}')\"; test -n \"$LD_AUDIT\" || exit 3; \
         eval \"$({becalm} env --undo)\"; echo \"[$LD_AUDIT][$GLIBC_TUNABLES]\"",
        text(&index)
    );
    let mut sh = std::process::Command::new("/bin/sh");
    let names = ["LD_AUDIT", "GLIBC_TUNABLES", "XDG_DATA_HOME"];
    for name in names {
        sh.env_remove(name);
    }
    let ran = run(sh.args(["-c", &script]).env("HOME", dir.path()).env("PATH", "/nowhere"));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "[][]\n"), "{}", ran.stderr);
}

#[test]
fn an_index_that_was_renamed_with_its_folder_is_used_by_its_own_name_and_repaired_by_update() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let_the_clock_pass();
    store.make_index(&[]);
    let (old, new, app) = (store.index(), store.path("renamed.so"), store.app());
    fs::rename(&old, &new).expect("renamed");
    fs::rename(store.path("index.so.d"), store.path("renamed.so.d")).expect("renamed");
    let start = || run(&mut store.becalm(&["run", "--index", text(&new), "--", text(&app)]));
    let env = || run(&mut store.becalm(&["env", "--index", text(&new)])).stdout;
    let update = || run(&mut store.becalm(&["index", "--update", "-o", text(&new)]));
    let by_name = format!("LD_AUDIT='{}'\n", text(&new));
    let by_platform = format!("LD_AUDIT='{}.d/$PLATFORM'\n", text(&new));
    let ran = start();
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("one two\n", ""));
    assert!(env().contains(&by_name), "{}", env());
    // Another index where the links lead.
    fs::copy(&new, &old).expect("copied");
    assert!(env().contains(&by_name), "{}", env());
    let ran = update();
    assert!(ran.stdout.contains("is up to date"), "{ran:?}");
    assert!(ran.stderr.contains("renamed.so.d: repaired"), "{ran:?}");
    assert!(env().contains(&by_platform), "{}", env());
    let ran = start();
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("one two\n", ""));
    assert_eq!(update().stderr, "");
}

#[test]
fn an_index_that_nothing_could_use_is_remarked() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let root = store.root();
    let (index, other) = (store.path("a$b.so"), store.index());
    let made = run(&mut store.becalm(&["index", text(&root), "-o", text(&index)]));
    assert_eq!(made.code, Some(0), "{made:?}");
    let remarked = made.stderr.lines().filter(|line| line.contains("a$b.so: becalm run and env"));
    assert_eq!(remarked.count(), 1, "{made:?}");
    let used = run(&mut store.becalm(&["env", "--index", text(&index)]));
    assert_ne!(used.code, Some(0), "{used:?}");
    let arguments = ["index", text(&root), "-o", text(&other), "--store", "/no/such"];
    let made = run(&mut store.becalm(&arguments));
    assert_eq!(made.code, Some(0), "{made:?}");
    assert!(made.stderr.contains("/no/such: does not exist"), "{made:?}");
}

#[test]
fn what_cannot_be_indexed_is_named_once_with_its_reason() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let (cut, empty, index) = (store.path("cut"), store.path("empty"), store.index());
    fs::write(&cut, &fs::read(store.app()).expect("read")[..3000]).expect("written");
    fs::create_dir(&empty).expect("made");
    for (program, expected) in [
        (&cut, "cut: malformed ELF file: it is truncated before the .bss of a segment\n"),
        (&store.path("app.c"), "app.c: not an ELF file\n"),
        (&empty, "empty: no program in this folder\n"),
    ] {
        let arguments = ["index", "--program", text(program), "-o", text(&index)];
        let ran = run(&mut store.becalm(&arguments));
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert_eq!(ran.stderr, format!("becalm: {}{expected}", text(&store.path(""))));
    }
}
