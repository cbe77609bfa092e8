//! Output for newcomers: without a command, for a program's name, and of `doctor` after `run`.

mod support;

use support::store::{Store, json, nothing_to_test_with, text};
use support::{run, wait_for};

#[test]
fn becalm_alone_prints_the_state_and_what_to_type() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let ran = run(&mut store.becalm(&[]));
    assert_eq!((ran.code, ran.stdout.lines().count(), ran.stderr.as_str()), (Some(0), 5, ""));
    assert!(ran.stdout.contains("switched on  0 programs\n"), "{ran:?}");
    assert!(ran.stdout.contains("next         becalm run -- PROGRAM;"), "{ran:?}");
    let app = store.app();
    let on = run(&mut store.becalm(&["on", text(&app)]));
    assert_eq!(on.code, Some(0), "{on:?}");
    let ran = run(&mut store.becalm(&[]));
    assert!(ran.stdout.contains("switched on  1 program\n"), "{ran:?}");
    assert!(ran.stdout.ends_with("next         becalm doctor\n"), "{ran:?}");
}

#[test]
fn a_program_instead_of_a_command_gives_the_lines_that_were_meant() {
    let ran = run(support::becalm().arg("sh"));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
    assert!(ran.stderr.contains("becalm run -- sh\n"), "{ran:?}");
    let unknown = run(support::becalm().arg("no-such-command-anywhere"));
    assert!(unknown.stderr.contains("unrecognized subcommand"), "{unknown:?}");
}

#[test]
fn doctor_knows_the_index_of_a_single_program() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let nothing = run(&mut store.becalm(&["doctor"]));
    assert!(nothing.code == Some(1) && nothing.stdout.contains("there is no index"), "{nothing:?}");
    run(&mut store.becalm(&["run", "--", text(&store.app())]));
    let doctor = || run(&mut store.becalm(&["doctor", "--json"]));
    wait_for("the index", || doctor().code == Some(0));
    let report = json(&doctor());
    assert_eq!(report["alone"]["kept"], 1, "{report}");
    assert_eq!(report["findings"], serde_json::json!([]), "{report}");
}
