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
