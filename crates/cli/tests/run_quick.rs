//! `becalm run` makes a known start again before its own C library begins, and only the same start.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use becalm_testing::skip;
use support::cold::kept;
use support::store::{Store, let_the_clock_pass, nothing_to_test_with, text};
use support::{run, wait_for};

/// A start, as strace sees it.
#[derive(Debug)]
struct Start {
    /// The calls from the opening of the decision to the program's `execve`; `None` if becalm's `main` was
    /// reached.
    quick: Option<usize>,
    /// The environment that the program gets, sorted.
    environment: Vec<String>,
}

fn start(store: &Store, command: &Command) -> Start {
    let out = store.path("calls");
    let mut strace = Command::new("strace");
    strace.args(["-v", "-s", "9999", "-o"]).arg(&out);
    strace.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => strace.env(name, value),
            None => strace.env_remove(name),
        };
    }
    if let Some(dir) = command.get_current_dir() {
        strace.current_dir(dir);
    }
    let ran = run(&mut strace);
    assert_eq!(ran.stdout, "one two\n", "{ran:?}");
    let calls = fs::read_to_string(&out).expect("a record");
    let calls: Vec<&str> = calls.lines().collect();
    let is_start = |line: &&str| line.starts_with("execve(") && line.ends_with(" = 0");
    let end = 1 + calls.iter().skip(1).position(is_start).expect("a start");
    // becalm's `main` begins with a poll of the standard descriptors.
    let is_main = calls[..end].iter().any(|call| call.starts_with("poll("));
    let opened = calls[..end].iter().position(|call| call.contains(".quick"));
    let list = calls[end].split_once("], [").expect("an environment").1;
    let mut environment: Vec<String> = list.split(", ").map(str::to_owned).collect();
    environment.sort();
    let quick = opened.filter(|_| !is_main).map(|opened| end - opened);
    Start { quick, environment }
}

/// Starts the program until its decision is kept, and returns the file.
fn known(store: &Store, command: impl Fn() -> Command) -> PathBuf {
    let home = store.path("home");
    for _ in 0..10 {
        run(&mut command());
        wait_for("the learner", || {
            kept(&home, "lock").is_empty() && !kept(&home, ".so").is_empty()
        });
        if let Some(file) = kept(&home, ".quick").pop() {
            return file;
        }
    }
    panic!("no decision: {:?}", kept(&home, ""));
}

fn is_without_strace() -> bool {
    let is_there = Command::new("strace").arg("-V").output().is_ok_and(|it| it.status.success());
    if !is_there {
        skip("no strace");
    }
    !is_there
}

#[test]
fn a_known_start_is_made_at_once_and_only_the_same() {
    if nothing_to_test_with() || is_without_strace() {
        return;
    }
    let store = Store::new();
    let app = store.app();
    let command = || store.becalm(&["run", "--", text(&app)]);
    let file = known(&store, command);
    let quick = start(&store, &command());
    assert!(quick.quick.is_some_and(|calls| calls <= MOST_CALLS), "{quick:?}");
    let slow = start(&store, &store.becalm(&["run", "--quiet", "--", text(&app)]));
    assert!(slow.quick.is_none(), "{slow:?}");
    assert_eq!(quick.environment, slow.environment);
    let without_dashes = store.becalm(&["run", text(&app), "--", "-x", "", "/"]);
    assert!(start(&store, &without_dashes).quick.is_some());

    let is_slow = |command: &Command, why: &str| {
        let start = start(&store, command);
        assert!(start.quick.is_none(), "{why}: {start:?}");
    };
    for name in ["LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT", "GLIBC_TUNABLES"] {
        is_slow(command().env(name, ""), name);
    }
    assert!(start(&store, command().env("PYTHONPATH", "/usr:/proc")).quick.is_some());
    is_slow(command().env("PYTHONPATH", "/proc:/usr"), "PYTHONPATH");
    is_slow(command().env("BECALM", "noahead"), "BECALM");
    is_slow(&store.becalm(&["run", "--", text(&app), "/proc/self/status"]), "an argument");
    is_slow(command().current_dir("/proc"), "the current directory");

    // Whatever is in the file, the program starts.
    let kept = fs::read(&file).expect("read");
    for at in (0..kept.len()).step_by(7) {
        let mut damaged = kept.clone();
        damaged[at] ^= 0x10;
        fs::write(&file, &damaged[..if at % 2 == 0 { kept.len() } else { at }]).expect("written");
        is_slow(&command(), "a damaged file");
    }
    fs::set_permissions(&file, PermissionsExt::from_mode(0o666)).expect("opened to all");
    fs::write(&file, &kept).expect("written");
    is_slow(&command(), "a file that others may write");
    // Each of these starts has kept its decision again.
    assert!(start(&store, &command()).quick.is_some());
    assert_eq!(fs::read(&file).expect("read"), kept);

    // An index of the whole store is used from now on.
    assert_eq!(run(&mut store.becalm(&["index", text(&store.root())])).code, Some(0));
    is_slow(&command(), "a default index");
    let by_default = start(&store, &command());
    let index = text(&store.path("home/.local/share/becalm/index.so")).to_owned();
    assert!(by_default.quick.is_some(), "{by_default:?}");
    assert!(by_default.environment.iter().any(|it| it.contains(&index)), "{by_default:?}");
}

/// The calls to open the file, to compare four files and the directory of the start, and to look at three
/// pages. Two paths of indexes.
const MOST_CALLS: usize = 40;

#[test]
fn a_start_with_a_library_path_is_known_for_that_path_and_a_python_until_a_package_comes() {
    if nothing_to_test_with() || is_without_strace() {
        return;
    }
    let store = Store::new();
    let bin = store.path("prefix/bin");
    let packages = store.path("prefix/lib/python3.9/site-packages");
    fs::create_dir_all(&bin).and_then(|()| fs::create_dir_all(&packages)).expect("made");
    let python = bin.join("python3");
    fs::copy(store.app(), &python).expect("copied");
    let (other, nothing) = (store.path("other"), store.path("nothing"));
    let with = |list: &Path| {
        let mut command = store.becalm(&["run", "python3"]);
        command.env("LD_LIBRARY_PATH", list).env("PATH", format!("{}:/usr/bin:/bin", text(&bin)));
        command
    };
    let_the_clock_pass();
    known(&store, || with(&nothing));
    assert!(start(&store, &with(&nothing)).quick.is_some());
    // Another list, with another library in it.
    assert_eq!(run(&mut with(&other)).stdout, "mine two\n");
    let_the_clock_pass();
    fs::write(packages.join("new.py"), "").expect("written");
    let start = start(&store, &with(&nothing));
    assert!(start.quick.is_none(), "{start:?}");
}
