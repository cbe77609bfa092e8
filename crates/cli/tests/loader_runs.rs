//! `becalm loader check` on the loaders of this machine. `cargo xtask loader-trial` tests built ones.

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use becalm_testing::skip;
use serde_json::Value;
use support::{Ran, becalm, run};

fn loader(arguments: &[&str]) -> Ran {
    run(becalm().arg("loader").args(arguments))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Returns the first of the loaders whose name begins with `prefix`.
fn of_this_machine(prefix: &str) -> Option<PathBuf> {
    ["/lib64", "/lib"].iter().find_map(|folder| {
        let entries = fs::read_dir(folder).ok()?;
        let mut paths: Vec<_> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
        paths.sort();
        paths.into_iter().find(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix))
        })
    })
}

#[test]
fn a_stock_loader_reads_neither_and_that_is_a_finding() {
    let Some(stock) = of_this_machine("ld-linux") else {
        skip("no glibc loader");
        return;
    };
    let store = tempfile::tempdir().expect("a folder");
    let ran = loader(&["check", text(&stock)]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stdout.starts_with("notes   not read\ncaches  not tried: --store"), "{ran:?}");
    let ran = loader(&["check", text(&stock), "--store", text(store.path())]);
    assert_eq!(ran.code, Some(1));
    assert_eq!(ran.stdout, "notes   not read\ncaches  not read in --store\n");
    assert_eq!(fs::read_dir(store.path()).expect("a folder").count(), 0, "the store is as before");
}

#[test]
fn json_tells_what_was_not_tried_from_what_is_not_read() {
    let Some(stock) = of_this_machine("ld-linux") else {
        skip("no glibc loader");
        return;
    };
    let ran = loader(&["check", "--json", text(&stock)]);
    let json: Value = serde_json::from_str(&ran.stdout).expect("one JSON object");
    assert_eq!(json["schema"], "becalm/loader/1");
    assert_eq!(json["loader"], text(&stock.canonicalize().expect("a file")));
    assert_eq!((&json["notes"], &json["caches"]), (&Value::Bool(false), &Value::Null));
}

#[test]
fn a_musl_loader_reads_neither() {
    let Some(musl) = of_this_machine("ld-musl-") else {
        skip("no musl loader");
        return;
    };
    let store = tempfile::tempdir().expect("a folder");
    let ran = loader(&["check", text(&musl), "--store", text(store.path())]);
    assert_eq!(ran.stdout, "notes   not read\ncaches  not read in --store\n", "{ran:?}");
    assert_eq!(ran.code, Some(1));
}

#[test]
fn what_is_no_loader_is_not_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let garbage = folder.path().join("ld-linux-x86-64.so.2");
    fs::write(&garbage, "no object at all").expect("written");
    let absent = folder.path().join("absent");
    for (path, why) in [
        (Path::new("/bin/sh"), "not a loader"),
        (&garbage, "not an ELF file"),
        (&absent, "No such file or directory"),
        (folder.path(), "Is a directory"),
    ] {
        let ran = loader(&["check", text(path)]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
        assert!(ran.stderr.trim_end().ends_with(why), "{ran:?}");
        assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
    }
}

#[test]
fn a_store_to_try_caches_in_that_is_not_there_is_named() {
    let Some(stock) = of_this_machine("ld-linux") else {
        skip("no glibc loader");
        return;
    };
    let ran = loader(&["check", text(&stock), "--store", "/no/such/store"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.starts_with("becalm: /no/such/store: "), "{ran:?}");
}
