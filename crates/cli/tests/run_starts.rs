//! `becalm run` starts the program whatever the state of its index, at little cost.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use becalm_testing::skip;
use rustix::fs::{FlockOperation, flock};
use support::store::{Store, nothing_to_test_with, text};
use support::{assert_refused, cc, finish, run, twenty, wait_for};

fn kept(store: &Store) -> Vec<PathBuf> {
    let entries = fs::read_dir(store.path("home/.cache/becalm/programs")).into_iter().flatten();
    let paths = entries.flatten().map(|entry| entry.path());
    paths.filter(|path| path.extension().is_some_and(|end| end == "so")).collect()
}

fn is_settled(store: &Store) -> bool {
    let entries = fs::read_dir(store.path("home/.cache/becalm/programs")).into_iter().flatten();
    !entries.flatten().any(|entry| entry.file_name().to_string_lossy().ends_with(".lock"))
}

/// Asserts that the program's output is its own, and that becalm prints one line with the words.
fn assert_started_plainly(command: &mut Command, words: &str) {
    let ran = run(command);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "one two\n"), "{ran:?}");
    assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
    assert!(ran.stderr.starts_with("becalm: started without an index: "), "{ran:?}");
    assert!(ran.stderr.contains(words), "{words}: {ran:?}");
}

#[test]
fn twenty_first_starts_beside_each_other_all_start() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let app = store.app();
    for output in twenty(|_| store.becalm(&["run", "--", text(&app)])) {
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!((output.stdout.as_slice(), output.stderr.len()), (&b"one two\n"[..], 0));
    }
    wait_for("an index", || kept(&store).len() == 1 && is_settled(&store));
    let index = kept(&store).remove(0);
    assert_eq!(run(&mut store.becalm(&["verify", text(&index)])).code, Some(0));
}

#[test]
fn strict_starts_beside_each_other_wait_for_the_index_that_one_of_them_makes() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let app = store.app();
    for output in twenty(|_| store.becalm(&["run", "--strict", "--", text(&app)])) {
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), stderr.as_ref()), (Some(0), ""));
        assert_eq!(output.stdout, b"one two\n");
    }
    assert_eq!(kept(&store).len(), 1);
    assert!(is_settled(&store));
}

#[test]
fn a_strict_start_makes_the_index_that_another_process_left_unmade() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let app = store.app();
    let strict = || store.becalm(&["run", "--strict", "--", text(&app)]);
    assert_eq!(run(&mut strict()).stdout, "one two\n");
    let index = kept(&store).remove(0);
    fs::remove_file(&index).expect("removed");
    let lock = fs::File::create(format!("{}.lock", text(&index))).expect("made");
    flock(&lock, FlockOperation::LockExclusive).expect("locked");
    let mut strict = strict();
    let waiting = strict.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut waiting = waiting.expect("starts");
    // Other starts do not wait, and take longer than a refusal.
    for _ in 0..10 {
        let ran = run(&mut store.becalm(&["run", "--", text(&app)]));
        assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("one two\n", ""));
    }
    assert!(waiting.try_wait().expect("is a child").is_none(), "it waits");
    drop(lock);
    let output = finish(waiting);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"one two\n"[..]));
    assert_eq!(kept(&store), [index]);
}

#[test]
fn indexes_made_beside_each_other_are_all_made() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let (root, index) = (store.root(), store.index());
    for _ in 0..3 {
        let make = |_| {
            let mut command = store.becalm(&["index", text(&root), "-o", text(&index)]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts")
        };
        let children: Vec<_> = (0..4).map(make).collect();
        for output in children.into_iter().map(finish) {
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!((output.status.code(), stderr.as_ref()), (Some(0), ""));
        }
        assert_eq!(store.missed_opens(true, None), 0);
    }
    let temporary = |name: &str| name.starts_with('.') || name.contains(".new-");
    for folder in [store.path(""), store.path("index.so.d")] {
        let names = fs::read_dir(folder).expect("listed").flatten();
        let mut names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
        assert!(!names.any(|name| temporary(&name)));
    }
}

#[test]
fn a_program_without_an_index_starts_at_once_and_has_one_the_next_time() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    // A process that is made for the index is no child of the program.
    store.source(
        "alone.c",
        "#include <stdio.h>\n#include <errno.h>\n#include <sys/wait.h>\n\
         const char *one(void);\n\
         int main(void)\n\
         { int none = waitpid(-1, 0, 0) == -1 && errno == ECHILD;\n\
           printf(\"%s %s\\n\", one(), none ? \"alone\" : \"not alone\"); return 0; }\n",
    );
    let one = store.one("libone.so");
    let alone = store.path("alone");
    let run_path = format!("-Wl,-rpath,{}", text(one.parent().expect("a folder")));
    cc(store.dir.path(), &["alone.c", "-o", text(&alone), &run_path, text(&one)]);
    let ran = run(&mut store.becalm(&["run", "--", text(&alone)]));
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), "one alone\n", ""));
    wait_for("an index", || kept(&store).len() == 1 && is_settled(&store));
    let log = store.path("log");
    let mut again = store.becalm(&["run", "--strict", "--", text(&alone)]);
    let ran = run(again.env("BECALM", format!("log:{}", text(&log))));
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("one alone\n", ""));
    assert!(log.exists(), "the module was there");
    assert_eq!(kept(&store).len(), 1);
}

#[test]
fn where_an_orphan_would_be_the_programs_child_the_next_index_makes_it() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let (root, app, index) = (store.root(), store.app(), store.index());
    let us = env!("CARGO_BIN_EXE_becalm");
    let mut first = Command::new("unshare");
    // The first process of a PID namespace.
    first.args(["--pid", "--fork", "--map-root-user", "--", us, "run", "--", text(&app)]);
    let ran = run(first.env("HOME", store.path("home")).env_remove("XDG_CACHE_HOME"));
    if ran.stderr.contains("unshare") {
        skip("no namespaces for this user");
        return;
    }
    assert_eq!(ran.stdout, "one two\n", "{ran:?}");
    assert_eq!(kept(&store).len(), 0);
    let made = run(&mut store.becalm(&["index", text(&root), "-o", text(&index)]));
    assert_eq!(made.code, Some(0), "{made:?}");
    assert_eq!(kept(&store).len(), 1);
}

#[test]
fn without_a_place_for_an_index_the_program_starts() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let app = store.app();
    let command = |flags: &[&str], home: Option<&Path>| {
        let mut command = store.becalm(&["run"]);
        command.args(flags).args(["--", text(&app)]);
        match home {
            Some(home) => command.env("HOME", home),
            None => command.env_remove("HOME"),
        };
        command
    };
    assert_started_plainly(&mut command(&[], None), "no home directory");
    // A path that nobody may write to, not even root.
    let file = store.path("app.c");
    assert_started_plainly(&mut command(&[], Some(&file)), "Not a directory");
    let quiet = run(&mut command(&["--quiet"], Some(&file)));
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("one two\n", ""));
    assert_refused(&run(&mut command(&["--strict"], Some(&file))), "Not a directory");
}

#[test]
fn an_empty_record_of_a_failure_counts_as_none() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let app = store.app();
    let strict = || run(&mut store.becalm(&["run", "--strict", "--", text(&app)]));
    assert_eq!(strict().stdout, "one two\n");
    let index = kept(&store).remove(0);
    for record in ["", "a reason"] {
        let failed = format!("{}.failed", text(&index));
        fs::remove_file(&index).expect("removed");
        fs::write(&failed, record).expect("written");
        let ran = strict();
        if record.is_empty() {
            assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("one two\n", ""));
            assert!(index.exists() && !Path::new(&failed).exists(), "it is made again");
        } else {
            assert_refused(&ran, record);
        }
    }
}

#[test]
fn a_full_disk_leaves_nothing_behind_and_is_forgotten_once_there_is_room() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let full = store.path("home/.cache");
    fs::create_dir_all(&full).expect("made");
    let script = "mount -t tmpfs -o size=1m none \"$FULL\" || exit 77\n\
        cat /dev/zero >\"$FULL/fill\" 2>/dev/null\n\
        \"$US\" run --strict -- \"$APP\"; echo $?\n\
        \"$US\" index \"$ROOT\" -o \"$FULL/i.so\"; echo $?\n\
        rm \"$FULL/fill\"; mount -o remount,size=64m \"$FULL\"\n\
        find \"$FULL\" -type f -o -name '*.so.d'\n\
        \"$US\" run --strict -- \"$APP\"; echo $?\n";
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--map-root-user", "sh", "-c", script]).env("FULL", &full);
    for variable in ["XDG_CACHE_HOME", "XDG_DATA_HOME", "LD_AUDIT", "LD_LIBRARY_PATH"] {
        unshare.env_remove(variable);
    }
    // A recorder has its lock there for a moment longer.
    unshare.env("BECALM", "noahead").env("HOME", store.path("home"));
    unshare.env("US", env!("CARGO_BIN_EXE_becalm")).env("APP", store.app());
    let ran = run(unshare.env("ROOT", store.root()));
    if ran.code == Some(77) || ran.stderr.contains("unshare") {
        skip("no namespaces for this user");
        return;
    }
    assert_eq!(ran.stdout, "2\n2\none two\n0\n", "{ran:?}");
    let lines: Vec<&str> = ran.stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{ran:?}");
    assert!(lines.iter().all(|line| line.ends_with("No space left on device")), "{ran:?}");
}

#[test]
fn an_index_that_others_may_have_written_is_not_used() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let folder = store.path("shared");
    fs::create_dir(&folder).expect("made");
    let (root, index) = (store.root(), folder.join("index.so"));
    let make = |more: &[&str]| {
        let mut command = store.becalm(&["index", "-o", text(&index)]);
        run(command.args(more))
    };
    assert_eq!(make(&[text(&root)]).code, Some(0));
    let app = store.app();
    let start = || store.becalm(&["run", "--index", text(&index), "--", text(&app)]);
    let env = || run(&mut store.becalm(&["env", "--index", text(&index)]));
    let set_mode = |path: &Path, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
    };
    assert_eq!(run(&mut start()).stderr, "");
    for (path, mode, usual) in
        [(&index, 0o664, 0o644), (&index, 0o646, 0o644), (&folder, 0o775, 0o755)]
    {
        set_mode(path, mode);
        assert_started_plainly(&mut start(), "may write");
        assert_refused(&env(), "may write");
        assert_refused(&make(&["--update"]), "name the stores");
        set_mode(path, usual);
    }
    // In a sticky directory nobody replaces the file of another.
    set_mode(&folder, 0o1777);
    assert_eq!(run(&mut start()).stderr, "");
    set_mode(&folder, 0o755);
    if std::os::unix::fs::chown(&index, Some(1234), None).is_ok() {
        assert_started_plainly(&mut start(), "belongs to user 1234");
        assert_refused(&make(&["--update"]), "belongs to user 1234");
        let made = make(&["--update", text(&root)]);
        assert!(made.code == Some(0) && made.stderr.contains("made anew"), "{made:?}");
        assert_eq!(run(&mut start()).stderr, "");
    }
    fs::remove_file(&index).expect("removed");
    assert!(Command::new("mkfifo").arg(&index).status().expect("mkfifo").success());
    assert_started_plainly(&mut start(), "no regular file");
    assert_refused(&env(), "no regular file");
}

#[test]
fn what_a_library_needs_is_answered_if_it_is_found_by_a_link() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    // As libraries that the loader cache names: a link, and the file has a run path of its own.
    let (links, empty) = (store.path("links"), store.path("empty"));
    for made in [&links, &empty] {
        fs::create_dir(made).expect("made");
    }
    let one = store.one("libone.so");
    let dir = one.parent().expect("a folder");
    let run_path = format!("-Wl,-rpath,{}:{}", text(&empty), text(dir));
    store.source("top.c", "const char *one(void); const char *top(void) { return one(); }\n");
    let top = store.path("libtop.so.1.2");
    let flags = ["-shared", "-fPIC", "-Wl,-soname,libtop.so.1", &run_path];
    cc(store.dir.path(), &[&flags[..], &["top.c", text(&one), "-o", text(&top)]].concat());
    let link = links.join("libtop.so.1");
    std::os::unix::fs::symlink(&top, &link).expect("linked");
    store.source(
        "user.c",
        "#include <stdio.h>\nconst char *top(void);\n\
         int main(void) { printf(\"%s two\\n\", top()); return 0; }\n",
    );
    let user = store.path("user");
    let allow = "-Wl,--allow-shlib-undefined";
    cc(store.dir.path(), &["user.c", text(&link), allow, "-o", text(&user)]);
    support::store::let_the_clock_pass();
    let start = |log: &str| {
        let mut command = store.becalm(&["run", "--strict", "--", text(&user)]);
        command.env("LD_LIBRARY_PATH", &links).env("BECALM", format!("log:{log}"));
        assert_eq!(run(&mut command).stdout, "one two\n");
    };
    let log = store.path("log");
    start(text(&log));
    let log = fs::read_to_string(log).expect("a log");
    let is_of_one = |line: &&str| line.split('\t').any(|field| field == "libone.so");
    let line = log.lines().find(is_of_one).expect("a question");
    assert!(line.ends_with(text(&one)), "{log}");
}

#[test]
fn an_index_of_another_version_is_not_used_and_is_made_anew() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    store.make_index(&[]);
    let index = store.index();
    let mut old = fs::read(&index).expect("read");
    let table = old.windows(8).rposition(|bytes| bytes == b"becalmIX").expect("a table");
    let version = if cfg!(target_endian = "little") { 12 } else { 15 };
    old[table + version] -= 1;
    fs::write(&index, old).expect("written");
    let ran = run(&mut store.calmed());
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "one two\n"), "{ran:?}");
    assert!(ran.stderr.lines().count() == 1 && ran.stderr.contains("format version"), "{ran:?}");
    let becalm = |arguments: &[&str]| run(&mut store.becalm(arguments));
    assert_refused(&becalm(&["env", "--index", text(&index)]), "becalm index makes it again");
    assert_refused(&becalm(&["index", "--update", "-o", text(&index)]), "format version");
    let root = store.root();
    let made = becalm(&["index", "--update", text(&root), "-o", text(&index)]);
    assert!(made.code == Some(0) && made.stderr.contains("made anew"), "{made:?}");
    assert_eq!(run(&mut store.calmed()).stderr, "");
    assert_eq!(store.missed_opens(true, None), 0);
}

#[test]
fn a_link_in_the_place_of_an_index_is_replaced_and_not_followed() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let app = store.app();
    let strict = || run(&mut store.becalm(&["run", "--strict", "--", text(&app)]));
    assert_eq!(strict().stdout, "one two\n");
    let index = kept(&store).remove(0);
    let precious = store.path("precious");
    fs::write(&precious, "precious\n").expect("written");
    fs::remove_file(&index).expect("removed");
    std::os::unix::fs::symlink(&precious, &index).expect("a link");
    assert_eq!(strict().stdout, "one two\n");
    assert_eq!(fs::read_to_string(&precious).expect("read"), "precious\n");
    assert!(!store.path("precious.d").exists() && !index.is_symlink());
}

#[test]
fn the_cache_of_single_programs_keeps_those_used_last() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let folder = store.path("home/.cache/becalm/programs");
    fs::create_dir_all(folder.join("old-0.so.d")).expect("made");
    for number in 0..150 {
        let old = fs::File::create(folder.join(format!("old-{number}.so"))).expect("made");
        old.set_len(4 << 20).expect("set");
        let age = std::time::Duration::from_secs(1000 - number);
        old.set_modified(std::time::SystemTime::now() - age).expect("set");
    }
    let ran = run(&mut store.becalm(&["run", "--strict", "--", text(&store.app())]));
    assert_eq!(ran.stdout, "one two\n", "{ran:?}");
    let is_there = |name: &str| folder.join(name).exists();
    assert!(is_there("old-149.so") && !is_there("old-0.so") && !is_there("old-0.so.d"));
    let names = fs::read_dir(&folder).expect("there").flatten();
    let indexes: Vec<_> =
        names.filter(|entry| entry.path().extension().is_some_and(|e| e == "so")).collect();
    assert_eq!(indexes.len(), 64);
    assert!(indexes.iter().any(|entry| entry.file_name().to_string_lossy().starts_with("app-")));
}

#[test]
fn a_script_by_env_starts_as_by_the_kernel_and_its_program_by_an_index() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let (script, log) = (store.path("script"), store.path("log"));
    let without = store.path("without-a-first-line");
    fs::write(&without, "echo \"$0\" \"$@\"\n").expect("written");
    fs::set_permissions(&without, fs::Permissions::from_mode(0o755)).expect("set");
    let path = format!("{}:{}", text(&store.path("")), std::env::var("PATH").expect("a path"));
    let shows = "tr '\\0' ' ' < /proc/$$/cmdline; cat /proc/$$/comm\n";
    for (line, is_direct) in [
        ("#!/usr/bin/env sh", true),
        ("#! \t/bin/env \t sh ", true),
        ("#!/usr/bin/env -S sh -e", false),
        ("#!/usr/bin/env -i sh", false),
        ("#!/usr/bin/env no-such-program", false),
        ("#!/usr/bin/env without-a-first-line", false),
        ("#!/bin/sh", false),
    ] {
        fs::write(&script, format!("{line}\n{shows}")).expect("written");
        for mode in [0o755, 0o644] {
            fs::set_permissions(&script, fs::Permissions::from_mode(mode)).expect("set");
            let plain = match Command::new(&script).arg("an argument").env("PATH", &path).output() {
                Ok(plain) => (plain.status.code(), String::from_utf8(plain.stdout).expect("text")),
                Err(_) => (Some(126), String::new()),
            };
            let start = || {
                let _ = fs::remove_file(&log);
                let mut command = store.becalm(&["run", "--", text(&script), "an argument"]);
                command.env("BECALM", format!("log:{}", text(&log))).env("PATH", &path);
                let ran = run(&mut command);
                assert_eq!((ran.code, ran.stdout), plain, "{line}, {mode:o}, {}", ran.stderr);
                fs::read_to_string(&log).unwrap_or_default()
            };
            start();
            wait_for("an index", || is_settled(&store));
            let log = start();
            let is_by_env =
                log.lines().any(|line| line.contains("\tobject\t") && line.ends_with("/env"));
            assert!(!(is_direct && is_by_env), "{line}: {log}");
            assert!(!is_direct || mode != 0o755 || log.contains("\tobject\t"), "{line}: {log}");
        }
    }
}

/// Starts the app, with a home directory from which nothing can be executed.
const NOEXEC: &str = r#"
mount --make-rprivate / && mkdir -p "$HOME" && mount -t tmpfs -o noexec,mode=700 home "$HOME" || exit
"$US" run --strict -- "$APP"; echo $?
"$US" run -- "$APP"
"$US" run --quiet -- "$APP"
cp "$INDEX" "$HOME/index.so"
"$US" run --index "$HOME/index.so" -- "$APP"
"$US" on "$APP"; echo $?
"$US" index --program "$APP"; echo $?
"$US" doctor "$APP" | grep -c noexec
"#;

#[test]
fn an_index_that_no_loader_can_map_is_a_reason_to_start_plainly() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    store.make_index(&[]);
    let us = store.becalm(&[]);
    let mut shell = Command::new("unshare");
    shell.args(["--mount", "sh", "-c", NOEXEC]).env("US", us.get_program());
    shell.env("HOME", store.path("home")).env("APP", store.app()).env("INDEX", store.index());
    for variable in ["XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"] {
        shell.env_remove(variable);
    }
    let ran = run(&mut shell);
    if ran.stderr.contains("unshare:") || ran.stderr.contains("mount:") {
        skip(&format!("nothing can be mounted here: {}", ran.stderr.trim()));
        return;
    }
    assert_eq!(ran.stdout, "2\none two\none two\none two\n2\n2\n1\n", "{ran:?}");
    let said: Vec<&str> = ran.stderr.lines().collect();
    assert!(said.len() == 5 && said.iter().all(|line| line.contains("noexec")), "{said:?}");
}
