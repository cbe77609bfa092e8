//! `--store` has one meaning: everything below a prefix, spelled as given or by the directory it
//! leads to.

mod support;

use std::os::unix::fs::symlink;

use serde_json::Value;
use support::run;
use support::store::{Store, json, nothing_to_test_with, text};

/// The report of a command about the app, given a spelling of the store's path.
fn report(store: &Store, arguments: &[&str], spelling: &str) -> Value {
    let app = store.app();
    json(&run(store.becalm(arguments).args(["--store", spelling, text(&app)])))
}

#[test]
fn a_store_named_by_a_link_is_the_store_it_leads_to() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let (root, link) = (store.root(), store.path("link"));
    symlink(&root, &link).expect("linked");
    // A farm makes the start of so small a program longer.
    for strategy in ["note", "farm", "ldcache"] {
        let arguments = ["fix", "--dry-run", "--allow-more-misses", "--json", "--with", strategy];
        let [by_root, by_link] =
            [text(&root), text(&link)].map(|spelling| report(&store, &arguments, spelling));
        let [before, after] = ["before", "after"].map(|side| &by_root["programs"][0][side]);
        assert_ne!(before, after, "{by_root}");
        assert_eq!(by_root, by_link, "{strategy}");
    }
    let checked = report(&store, &["check", "--json"], text(&link));
    assert_eq!(checked["programs"][0]["immutable"], true, "{checked}");
}

#[test]
fn a_relative_path_into_a_store_is_immutable() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let root = store.root();
    let mut command = store.becalm(&["check", "--json", "--store", text(&root)]);
    let app = store.app();
    let relative = app.strip_prefix(&root).expect("below the store");
    let checked = json(&run(command.arg(relative).current_dir(&root)));
    assert_eq!(checked["programs"][0]["immutable"], true, "{checked}");
}
