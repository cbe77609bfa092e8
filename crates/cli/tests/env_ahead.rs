//! Cold starts in a session of `becalm env --ahead`: the audit module starts a becalm beside them, which
//! records their pages and reads them ahead.

#![cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]

mod support;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use becalm_host::pages::resident::Residency;
use serde_json::Value;
use support::cold::{
    evict, is_evicted, kept, large_program, line, lines, pages_in_memory, residency,
};
use support::store::{Store, json, nothing_to_test_with, text};
use support::{becalm, finish, run, wait_for};

/// A program with large libraries.
struct Cold {
    store: Store,
    files: Vec<PathBuf>,
}

impl Cold {
    fn new() -> Self {
        let store = Store::new();
        store.make_index(&[]);
        let files = large_program(&store);
        Self { store, files }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.store.path("cold"));
        command.env("HOME", self.store.path("home")).env_remove("XDG_CACHE_HOME");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts the program in the session, with these switches more, until `is_done`.
    fn start(&self, more: &str, is_done: impl FnMut() -> bool) {
        let plain = finish(self.command().spawn().expect("starts"));
        if more != "warm" {
            self.files.iter().for_each(|path| evict(path));
        }
        let index = self.store.index();
        let arguments = ["env", "--ahead", "--json", "--index", text(&index)];
        let report = json(&run(&mut self.store.becalm(&arguments)));
        let mut command = self.command();
        for variable in report["variables"].as_array().expect("variables") {
            let value = variable["value"].as_str().expect("set").to_owned();
            let is_switches = variable["name"] == "BECALM";
            let value = if is_switches { format!("{value},{more}") } else { value };
            command.env(variable["name"].as_str().expect("a name"), value);
        }
        let child = command.spawn().expect("starts");
        wait_for("the becalm beside it", is_done);
        let output = finish(child);
        assert_eq!(output.status.code(), Some(7));
        assert_eq!((output.stdout, output.stderr), (plain.stdout, plain.stderr), "{more}");
    }

    fn records(&self, ending: &str) -> Vec<PathBuf> {
        kept(&self.store.path("home"), ending)
    }

    /// Returns the lines of the record, once it is written.
    fn record(&self) -> Option<(PathBuf, Vec<Value>)> {
        let path = self.records(".pages").pop().filter(|_| self.records("lock").is_empty())?;
        let lines = lines(&path);
        Some((path, lines))
    }
}

#[test]
fn a_cold_start_in_a_session_is_recorded_and_the_next_is_read_ahead() {
    if nothing_to_test_with() {
        return;
    }
    let cold = Cold::new();
    // Only a becalm that reads by the record brings this file into memory.
    let data = cold.store.path("data");
    fs::write(&data, vec![7; 1 << 20]).expect("written");
    if !is_evicted(&data) {
        return;
    }
    cold.start("warm", || true);
    assert!(cold.records("").is_empty(), "a warm start begins nothing");
    cold.start("noahead", || true);
    assert!(cold.records("").is_empty(), "noahead");

    cold.start("", || cold.record().is_some());
    let (path, lines) = cold.record().expect("a record");
    let recorded: Vec<&str> = lines[1..].iter().filter_map(|line| line["path"].as_str()).collect();
    assert!(recorded.contains(&text(&cold.files[3])), "{recorded:?}");
    assert_eq!(lines[0]["command"], text(&cold.store.path("cold")));

    fs::write(&path, format!("{}\n{}\n", lines[0], line(&data, 100))).expect("written");
    evict(&data);
    cold.start("warm", || true);
    assert_eq!(residency(&data, 3), Residency::OnDisk);
    evict(&data);
    cold.start("", || pages_in_memory(&data) >= 100);
    assert_eq!(residency(&data, 20), Residency::InMemory);
}

#[test]
fn a_session_that_reads_ahead_is_removed_completely() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    store.make_index(&[]);
    let index = store.index();
    let lines = run(&mut store.becalm(&["env", "--ahead", "--paths", "--index", text(&index)]));
    assert_eq!(lines.code, Some(2), "this index has no paths: {lines:?}");
    let lines = run(&mut store.becalm(&["env", "--ahead", "--index", text(&index)]));
    assert_eq!(lines.code, Some(0), "{lines:?}");
    let script = format!(
        "unset BECALM LD_AUDIT GLIBC_TUNABLES\n{}echo \"$BECALM\"\n\
         eval \"$('{}' env --undo)\"\necho \"<$BECALM$LD_AUDIT>\"\n",
        lines.stdout,
        becalm().get_program().display()
    );
    let printed = run(Command::new("sh").args(["-c", &script]).env("HOME", store.path("home")));
    let lines: Vec<&str> = printed.stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{printed:?}");
    assert!(lines[0].starts_with("ahead:/") && lines[0].ends_with("/becalm"), "{printed:?}");
    assert_eq!(lines[1], "<>", "{printed:?}");
}
