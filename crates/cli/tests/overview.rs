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
fn fix_and_index_without_what_they_need_list_the_ways_and_name_advise() {
    for (command, ways) in [
        ("fix", &["absolute", "farm", "note", "ldcache", "audit"][..]),
        ("index", &["index STORE...", "--program", "--update"]),
    ] {
        let ran = run(support::becalm().arg(command));
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
        for way in ways.iter().chain(&["becalm advise PROGRAM"]) {
            assert!(ran.stderr.contains(way), "{way}: {ran:?}");
        }
    }
}

#[test]
fn the_help_groups_the_commands() {
    let help = run(support::becalm().arg("--help")).stdout;
    let at = |title: &str| help.find(&format!("\n{title}:\n")).expect("a group");
    assert!(at("Daily") < at("Look") && at("Look") < at("Change files"), "{help}");
    assert!(at("Change files") < at("Build") && at("Build") < at("Options"), "{help}");
}

#[test]
fn a_closed_pipe_ends_each_command_quietly() {
    let help = run(support::becalm().arg("--help")).stdout;
    let of_help = help.lines().filter_map(|line| line.strip_prefix("  ")?.split_once(' '));
    let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase());
    let mut named: Vec<&str> = of_help.map(|(name, _)| name).filter(|it| is_name(it)).collect();
    named.retain(|name| !["becalm", "help"].contains(name));
    assert!(named.len() >= 20 && named.contains(&"loader"), "{named:?}");
    let helps: Vec<[&str; 2]> = named.iter().map(|name| [*name, "--help"]).collect();
    let commands: [&[&str]; 20] = [
        &[],
        &["--help"],
        &["run", "--", "cat", "/etc/passwd"],
        &["env", "--undo"],
        &["off"],
        &["index", "--json", "--program", "/bin/sh", "-o", "index.so"],
        &["trace", "--json", "--", "sh", "-c", ":"],
        &["report", "--no-run", "sh", "-o", "page.html"],
        &["undo", "/bin/sh"],
        &["generate", "completions", "bash"],
        &["check", "sh"],
        &["check", "/usr/bin"],
        &["check", "--json", "sh"],
        &["advise", "sh"],
        &["doctor"],
        &["cache"],
        &["bench", "--rounds", "1", "--run", "-c :", "sh"],
        &["on", "--list"],
        &["fix", "--with", "note", "--dry-run", "/bin/sh"],
        &["verify", "/bin/sh"],
    ];
    for command in commands.into_iter().chain(helps.iter().map(|it| &it[..])) {
        let home = tempfile::tempdir().expect("a scratch directory");
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut becalm = support::becalm();
        becalm.args(command).env("HOME", home.path()).current_dir(home.path()).stdout(writer);
        let ended = becalm.stderr(std::process::Stdio::piped()).output().expect("ran");
        assert_eq!(String::from_utf8_lossy(&ended.stderr), "", "{command:?}");
    }
}

#[test]
fn doctor_knows_the_index_of_a_single_program() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let nothing = run(&mut store.becalm(&["doctor"]));
    assert!(nothing.code == Some(1) && nothing.stdout.contains("there is no index"), "{nothing:?}");
    // The files have just changed, so some are in the index without a fingerprint.
    run(&mut store.becalm(&["run", "--", text(&store.app())]));
    let doctor = || run(&mut store.becalm(&["doctor", "--json"]));
    wait_for("the index", || doctor().code == Some(0));
    let report = json(&doctor());
    assert_eq!(report["alone"]["kept"], 1, "{report}");
    assert_eq!(report["findings"], serde_json::json!([]), "{report}");
    assert_eq!(report["kept"][0]["program"], text(&store.app()), "{report}");
    assert_eq!(report["kept"][0]["fresh"], true, "{report}");
    let of_app = run(&mut store.becalm(&["doctor", text(&store.app())]));
    assert_eq!(of_app.code, Some(0), "{of_app:?}");
    assert!(
        of_app.stdout.starts_with("app: about ") && of_app.stdout.contains("; fresh"),
        "{of_app:?}"
    );
    assert_eq!(run(&mut store.becalm(&["doctor", "no-such-program"])).code, Some(2));
}

/// Runs a command with a new terminal as its stderr, and returns what it writes there.
fn at_a_terminal(command: &mut std::process::Command) -> String {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use std::io::Read;
    let side = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&side).and_then(|()| unlockpt(&side)).expect("unlocked");
    let name = ptsname(&side, Vec::new()).expect("a name");
    let open = std::fs::OpenOptions::new().write(true).open(name.to_str().expect("UTF-8"));
    let ran = command.stderr(open.expect("opened")).output().expect("ran");
    assert!(ran.status.success(), "{ran:?}");
    command.stderr(std::process::Stdio::null());
    let mut text = Vec::new();
    // Reading fails once nobody has the other side open.
    let mut buffer = [0; 256];
    let mut side = std::fs::File::from(side);
    while let Ok(read) = side.read(&mut buffer) {
        text.extend_from_slice(&buffer[..read]);
    }
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn a_first_run_at_a_terminal_says_that_an_index_is_being_made() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let app = store.app();
    let line = at_a_terminal(&mut store.becalm(&["run", "--no-ahead", "--", text(&app)]));
    assert!(line.contains("one is being made for its next start"), "{line}");
    let other = Store::new();
    let app = other.app();
    let quiet = at_a_terminal(&mut other.becalm(&["run", "-q", "--no-ahead", "--", text(&app)]));
    assert_eq!(quiet, "");
    let ran = run(&mut Store::new().becalm(&["run", "--no-ahead", "--", text(&app)]));
    assert_eq!(ran.stderr, "", "not at a terminal");
}
