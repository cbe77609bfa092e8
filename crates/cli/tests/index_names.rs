//! Under how many names `becalm index` knows an object.

mod support;

use std::fs;

use support::run;
use support::store::{json, nothing_to_test_with, text};

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
