//! `becalm undo`: which files and directories it finds, and which it leaves alone.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use support::chain::{Store, content_of};
use support::{becalm, no_compiler, run};

fn make_fifo(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status().expect("mkfifo runs");
    assert!(made.success());
}

#[test]
fn a_fifo_is_refused_and_not_waited_for() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let [fifo, link] = ["fifo", "link"].map(|name| dir.path().join(name));
    make_fifo(&fifo);
    std::os::unix::fs::symlink(&fifo, &link).expect("made");
    let page = dir.path().join("page.html");
    let commands: [&[&str]; 5] = [
        &["undo"],
        &["undo", "-n"],
        &["undo", "--in-place"],
        &["check", "/bin/sh", "--index"],
        &["report", "--output", page.to_str().expect("text")],
    ];
    for command in commands {
        for path in [&fifo, &link] {
            let ran = run(becalm().args(command).arg(path));
            assert_eq!(ran.code, Some(2), "{command:?}: {ran:?}");
            let said = format!("{}{}", ran.stdout, ran.stderr);
            assert!(said.contains("not a regular file"), "{command:?}: {ran:?}");
        }
    }
    assert!(!fs::exists(&page).expect("can be seen"));
}

#[test]
fn caches_and_farms_of_packages_at_any_depth_are_removed() {
    if no_compiler() {
        return;
    }
    let store = Store::new();
    let above = store.dir.path();
    let content = || {
        let mut all = BTreeMap::new();
        content_of(above, &mut all);
        all
    };
    let before = content();
    for strategy in ["ldcache", "farm"] {
        let ran = store.on(&["fix", "--with", strategy], above);
        assert_eq!(ran.code, Some(0), "{strategy}: {}", ran.stderr);
        assert_ne!(content(), before, "{strategy}");
        let ran = store.on(&["undo"], above);
        assert_eq!(ran.code, Some(0), "{strategy}: {}", ran.stderr);
        assert_eq!(content(), before, "{strategy}");
    }
    // A killed fix leaves a farm that no object names.
    let farm = store.root().join("aaa-one/lib/becalm-farm/lib/libone.so");
    fs::create_dir_all(&farm).expect("made");
    std::os::unix::fs::symlink("/gone", farm.join("libx.so")).expect("made");
    // A link to another tree is not followed.
    let other = tempfile::tempdir().expect("a scratch directory");
    let theirs = other.path().join("becalm-farm/bin/x");
    fs::create_dir_all(&theirs).expect("made");
    std::os::unix::fs::symlink("/gone", theirs.join("libx.so")).expect("made");
    let package = store.root().join("eee-linked");
    fs::create_dir(&package).expect("made");
    std::os::unix::fs::symlink(other.path(), package.join("lib")).expect("made");
    let ran = store.on(&["undo"], above);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(theirs.join("libx.so").is_symlink());
    fs::remove_file(package.join("lib")).expect("removed");
    fs::remove_dir(&package).expect("removed");
    assert_eq!(content(), before);
}

#[test]
fn a_dry_run_of_a_relative_path_lists_each_farm_once() {
    if no_compiler() {
        return;
    }
    let store = Store::new();
    let ran = store.becalm(&["fix", "--with", "farm"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let undo = ["undo", "-n", "--json", "store"];
    let ran = run(becalm().args(undo).current_dir(store.dir.path()));
    let json: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let removed = json["removed"].as_array().expect("a list").iter();
    let removed: Vec<_> = removed.map(|it| it["path"].as_str().expect("text")).collect();
    let real = |path: &&str| store.dir.path().join(path).canonicalize().expect("is there");
    let once: BTreeSet<_> = removed.iter().map(real).collect();
    assert!(!removed.is_empty());
    assert_eq!(once.len(), removed.len(), "{removed:?}");
}

#[test]
fn directories_that_were_there_before_stay() {
    if no_compiler() {
        return;
    }
    let store = Store::new();
    let package = store.root().join("ccc-app");
    let mode =
        |dir: &Path| fs::metadata(dir).map_or(0, |about| about.permissions().mode() & 0o7777);
    let etc = package.join("etc");
    // Empty, and by its mode not one that becalm makes.
    fs::create_dir(&etc).expect("made");
    fs::set_permissions(&etc, fs::Permissions::from_mode(0o2775)).expect("set");
    let ran = store.becalm(&["fix", "--with", "ldcache"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(etc.join("ld.so.cache").exists());
    let ran = store.becalm(&["undo"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(!etc.join("ld.so.cache").exists());
    assert_eq!(mode(&etc), 0o2775);
    // The mark of unfinished directories is a mode, not the sticky bit alone.
    fs::set_permissions(&etc, fs::Permissions::from_mode(0o1777)).expect("set");
    let ran = store.becalm(&["undo"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(mode(&etc), 0o1777);
}
