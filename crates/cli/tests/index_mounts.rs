//! An index of a store whose file system has another device number at each mount, as NFS, overlayfs
//! and btrfs have; and one of a store on an overlay, under seccomp filters.

mod support;

use std::fs;
use std::process::Command;

use becalm_testing::skip;
use support::store::{Store, let_the_clock_pass, nothing_to_test_with};
use support::{cc, run};

/// Mounts an overlay of the store over the store twice, with a file system mounted in between that
/// takes the first one's number. The index is made under the first and used under both.
const SCRIPT: &str = r#"
set -e
mount --make-rprivate /
over() { mount -t overlay over -o "lowerdir=$ROOT:$HERE/empty" "$ROOT"; }
started() { BECALM=log:$HERE/$1.log "$US" run --strict --index "$HERE/index.so" -- "$APP" >"$HERE/$1.out"; }
mkdir "$HERE/empty" "$HERE/filler"
over
stat -c %d "$ROOT"
"$US" index "$ROOT" --bind-threshold 0,0 --dirs "$ROOT/plain" -o "$HERE/index.so" >"$HERE/made"
# The overlay's root has just changed.
until "$US" index --update -o "$HERE/index.so" | grep -q "up to date"; do :; done
started first
umount "$ROOT"
mount -t tmpfs filler "$HERE/filler"
over
stat -c %d "$ROOT"
started second
"$US" index --update -o "$HERE/index.so"
"#;

#[test]
fn an_index_holds_when_the_store_has_another_device_number() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    fs::create_dir(store.root().join("plain")).expect("made");
    let_the_clock_pass();
    let mut command = Command::new("unshare");
    command.args(["--mount", "--map-root-user", "sh", "-c", SCRIPT]);
    command.env("ROOT", store.root()).env("HERE", store.path("")).env("APP", store.app());
    command.env("US", env!("CARGO_BIN_EXE_becalm")).env("HOME", store.path("home"));
    let ran = run(&mut command);
    if ran.stderr.contains("unshare:") || ran.stderr.contains("mount:") {
        skip(&format!("no overlay can be mounted here: {}", ran.stderr.trim()));
        return;
    }
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert!(lines[0] != lines[1], "the same device number twice: {ran:?}");
    let read = |name: &str| fs::read_to_string(store.path(name)).expect("a file");
    // Without process and address of each line.
    let log = |name: &str| -> Vec<String> {
        let text = read(name);
        let fields = |line: &str| {
            line.split('\t')
                .enumerate()
                .filter(|(at, _)| ![0, 2].contains(at))
                .map(|(_, field)| field.to_owned())
                .collect::<Vec<_>>()
                .join(" ")
        };
        text.lines().map(fields).collect()
    };
    let (first, second) = (log("first.log"), log("second.log"));
    assert!(first.iter().any(|line| line.starts_with("bindings applied")), "{first:#?}");
    assert_eq!(first, second, "answered under the second mount as under the first");
    assert_eq!(read("first.out"), read("second.out"));
    // The layers of another mount may be others, so the directories were compared by their names.
    assert!(lines[2].ends_with("/index.so written"), "{ran:?}");
}

/// Starts a program without a filter and under filters, with an index made without and under one.
const FILTERED: &str = r#"
set -e
mount --make-rprivate /
mkdir "$HERE/empty"
[ "$ON" = plain ] || mount -t overlay over -o "lowerdir=$ROOT:$HERE/empty" "$ROOT"
make() {
  "$@" "$US" index "$ROOT" -o "$HERE/index.so" >"$HERE/made"
  until "$@" "$US" index --update -o "$HERE/index.so" | grep -q "up to date"; do :; done
}
start() {
  : >"$HERE/log"
  printed=$(LD_AUDIT="$HERE/index.so" BECALM="log:$HERE/log" "$@" "$APP") || printed="exit $?"
  answers=$(awk -F '\t' '$2 == "search" && $5 == "libone.so" && $6 != ""' "$HERE/log" | wc -l)
  echo "$printed $answers"
}
make env
start env
for call in statx getdents64; do start "$HERE/filter" $call; done
make "$HERE/filter" none
start "$HERE/filter" none
start "$HERE/filter" none "$HERE/filter" statx,getdents64
"#;

#[test]
fn a_filter_that_the_maker_of_an_index_did_not_have_ends_no_start() {
    if nothing_to_test_with() {
        return;
    }
    for file_system in ["plain", "overlay"] {
        let store = Store::new();
        store.source("filter.c", becalm_testing::FILTER);
        cc(store.dir.path(), &["-w", "filter.c", "-o", "filter"]);
        let_the_clock_pass();
        let mut command = Command::new("unshare");
        command.args(["--mount", "--map-root-user", "sh", "-c", FILTERED]);
        command.env("ROOT", store.root()).env("HERE", store.path("")).env("APP", store.app());
        command.env("US", env!("CARGO_BIN_EXE_becalm")).env("HOME", store.path("home"));
        let ran = run(command.env("ON", file_system));
        if ran.stderr.contains("unshare:") || ran.stderr.contains("mount:") {
            skip(&format!("no overlay can be mounted here: {}", ran.stderr.trim()));
            return;
        }
        // Only on an overlay the module needs another call than statfs.
        let filtered = if file_system == "plain" { "one two 1" } else { "one two 0" };
        let expected = ["one two 1", filtered, filtered, "one two 1", filtered];
        let lines: Vec<&str> = ran.stdout.lines().collect();
        assert_eq!(lines, expected, "{file_system}: {ran:?}");
    }
}
