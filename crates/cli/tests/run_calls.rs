//! `becalm run` makes few system calls before it becomes the program.

mod support;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use support::store::{Store, nothing_to_test_with, text};
use support::{is_missing, run, wait_for};

/// Waits until no process makes an index or a record.
fn settle(store: &Store) {
    let folder = store.path("home/.cache/becalm/programs");
    let is_lock = |entry: fs::DirEntry| entry.file_name().to_string_lossy().ends_with("lock");
    std::thread::sleep(Duration::from_millis(50));
    wait_for("the end of the work", || {
        !fs::read_dir(&folder).into_iter().flatten().flatten().any(is_lock)
    });
}

/// The calls that becalm makes itself before it becomes the program, by strace.
fn calls(command: &Command, app: &Path, out: &Path) -> Vec<String> {
    let mut strace = Command::new("strace");
    strace.arg("-o").arg(out).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => strace.env(name, value),
            None => strace.env_remove(name),
        };
    }
    assert_eq!(run(&mut strace).stdout, "one two\n");
    let text = fs::read_to_string(out).expect("a record");
    let is_start =
        |line: &&str| line.starts_with("execve(") && line.contains(support::store::text(app));
    let end = text.lines().position(|line| is_start(&line) && line.ends_with("= 0"));
    // The second start: the first is becalm's own.
    let own = text.lines().skip(1).position(|line| is_start(&line)).or(end).expect("a start");
    text.lines().take(own + 2).map(str::to_owned).collect()
}

#[test]
fn with_an_index_that_fits_run_makes_few_system_calls() {
    if nothing_to_test_with() {
        return;
    }
    if is_missing("strace", "strace") {
        return;
    }
    let store = Store::new();
    let (root, app, out) = (store.root(), store.app(), store.path("calls"));
    let kept_one = || store.becalm(&["run", "--strict", "--no-ahead", "--", text(&app)]);
    assert_eq!(run(&mut kept_one()).stdout, "one two\n");
    let of_kept = calls(&kept_one(), &app, &out);
    assert_eq!(run(&mut store.becalm(&["index", text(&root)])).code, Some(0));
    let of_default = calls(&kept_one(), &app, &out);
    store.make_index(&[]);
    let of_named = calls(store.calmed().env("BECALM", "noahead"), &app, &out);
    // No index has this program except the one that is kept for it.
    let other = store.path("other-index.so");
    let other_store = store.path("store/").join(store.packages[1]);
    let make = ["index", text(&other_store), "-o", text(&other), "--store", text(&root)];
    assert_eq!(run(&mut store.becalm(&make)).code, Some(0));
    let stranger = store.becalm(&["run", "--no-ahead", "--index", text(&other), "--", text(&app)]);
    let of_stranger = calls(&stranger, &app, &out);
    assert!(!of_stranger.iter().any(|call| call.contains("libone.so")), "{of_stranger:#?}");
    // By its name: one call for each directory of PATH.
    let bin = app.parent().expect("a folder");
    let mut named = store.becalm(&["run", "--strict", "--no-ahead", "--", "app"]);
    let path = std::env::var("PATH").unwrap_or_default();
    named.env("PATH", format!("/nowhere:{}:{}:{path}", text(&root), text(bin)));
    let of_name = calls(&named, &app, &out);
    assert_eq!(own_calls(&of_name), own_calls(&of_default) + 3, "{of_name:#?}");
    // The first starts are learned.
    let with_record = || store.becalm(&["run", "--strict", "--", text(&app)]);
    for _ in 0..8 {
        run(&mut with_record());
        settle(&store);
    }
    let of_recorded = calls(&with_record(), &app, &out);
    let with_samples = (of_recorded, MOST_CALLS + MOST_CALLS_AHEAD);
    let others = [of_kept, of_default, of_named].map(|calls| (calls, MOST_CALLS));
    for (calls, most) in others.into_iter().chain([with_samples]) {
        let count = own_calls(&calls);
        assert!(count <= most, "{count} calls: {calls:#?}");
        let is_fork = |call: &String| call.starts_with("clone") || call.starts_with("fork");
        assert!(!calls.iter().any(is_fork), "{calls:#?}");
    }
}

/// The number of calls before `execve` of a program in a shallow folder, without those for each
/// directory of `PATH`. Root looks at the owner of its home directory, with two of them.
const MOST_CALLS: usize = 58;
/// The number of calls for the record: to open it, and to look at three pages.
const MOST_CALLS_AHEAD: usize = 45;

/// The number of calls that a static binary makes before it becomes the program.
fn own_calls(calls: &[String]) -> usize {
    // becalm begins with a poll of the standard descriptors. A static binary makes 14
    // calls before that and 2 to grow its heap. Calls of a dynamic binary's loader do not count,
    // nor does its longer `/proc/self/maps`.
    let main = calls.iter().position(|call| call.starts_with("poll(")).expect("a runtime");
    let is_dynamic = calls.iter().any(|call| call.contains("/etc/ld.so.preload"));
    let of_dynamic = ["brk(", "getrandom(", "read(", "fcntl("];
    let is_own = |call: &&String| !of_dynamic.iter().any(|start| call.starts_with(start));
    let own = calls[main..].iter().filter(is_own).count();
    if is_dynamic { own + 14 + 2 + 1 } else { calls.len() }
}
