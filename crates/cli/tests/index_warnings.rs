//! `becalm index` names what it was given and cannot use.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use becalm_testing::skip;
use support::run;
use support::store::{Store, json, nothing_to_test_with, text};

#[test]
fn relative_directories_of_a_list_are_reported() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let (root, index) = (store.root(), store.index());
    let arguments = ["index", text(&root), "-o", text(&index), "--dirs", "lib::."];
    let ran = run(&mut store.becalm(&[&arguments[..], &["--json"]].concat()));
    let not_snapshotted = json(&ran)["directories"]["not_snapshotted"].clone();
    assert_eq!(not_snapshotted, serde_json::json!(["lib", "", "."]));
    let lines: Vec<&str> = ran.stderr.lines().collect();
    for (line, element) in lines.iter().zip(["lib", "(empty element)", "."]) {
        assert!(line.starts_with(&format!("becalm: {element}: not an absolute path")), "{lines:?}");
    }
    assert_eq!(lines.len(), 3, "{lines:?}");
    let text = run(&mut store.becalm(&arguments));
    assert!(!text.stdout.contains("note"), "{text:?}");
    // An empty LD_LIBRARY_PATH has no elements.
    let ran = run(&mut store.becalm(&[&arguments[..5], &[""]].concat()));
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
}

#[test]
fn a_set_id_program_is_indexed_with_a_warning() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let (app, index, copy) = (store.app(), store.index(), store.path("privileged"));
    fs::copy(app, &copy).expect("copied");
    if std::os::unix::fs::chown(&copy, Some(1234), None).is_err() {
        skip("only root gives files away");
        return;
    }
    for (mode, words) in [(0o755, ""), (0o4755, "starts in secure-execution mode")] {
        fs::set_permissions(&copy, fs::Permissions::from_mode(mode)).expect("set");
        let arguments = ["index", "--program", text(&copy), "-o", text(&index)];
        let ran = run(&mut store.becalm(&arguments));
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert_eq!(ran.stderr.is_empty(), words.is_empty(), "{ran:?}");
        assert!(ran.stderr.contains(words), "{ran:?}");
    }
}
