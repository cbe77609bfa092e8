//! `becalm env`: an index of one user is not printed for all, and the static TLS of a session.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use becalm_core::index::tls::{PROGRAM, SESSION};
use serde_json::Value;
use support::store::{Store, nothing_to_test_with, text};
use support::{Ran, assert_refused, becalm, cc, is_missing, run};

#[test]
fn what_is_for_all_users_is_refused_with_an_index_of_one() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    store.make_index(&[]);
    let index = store.index();
    fs::set_permissions(store.dir.path(), fs::Permissions::from_mode(0o700)).expect("closed");
    for what in ["nixos", "systemd", "profile.d"] {
        let ran = run(&mut store.becalm(&["env", "--index", text(&index), "--for", what]));
        assert_refused(&ran, "-o /var/lib/becalm/index.so");
        // The command can be pasted: it makes the folder if there is none.
        let makes_it = ran.stderr.contains("mkdir -p /var/lib/becalm && becalm index");
        assert_ne!(makes_it, Path::new("/var/lib/becalm").is_dir(), "{}", ran.stderr);
    }
}

#[test]
fn a_session_starts_programs_whose_libraries_take_more_static_tls_than_glibc_keeps() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    // Outside the store and without a run path: a library of the machine, such as libjemalloc.
    store.source(
        "big.c",
        "static __thread char big[SIZE] __attribute__((tls_model(\"initial-exec\")));\n\
         const char *one(void) { big[0] = 1; return big[0] ? \"big\" : \"none\"; }\n",
    );
    store.source(
        "user.c",
        "#include <stdio.h>\n#include <pthread.h>\nconst char *one(void);\n\
         static void *thread(void *none)\n\
         { volatile char used[7000]; for (int i = 0; i < 7000; i++) used[i] = 1; return none; }\n\
         int main(void)\n\
         { pthread_t t; pthread_attr_t a; pthread_attr_init(&a);\n\
           int failed = pthread_attr_setstacksize(&a, 16384);\n\
           failed |= pthread_create(&t, &a, thread, 0);\n\
           printf(\"%s %s\\n\", one(), failed ? \"no thread\" : \"thread\"); return 0; }\n",
    );
    let session = |size: u32, flags: &[&str]| {
        let size = format!("-DSIZE={size}");
        let (library, user) = (store.path("libbig.so"), store.path("user"));
        cc(store.dir.path(), &["-shared", "-fPIC", &size, "big.c", "-o", text(&library)]);
        let link = ["user.c", "-pthread", "-o", text(&user), text(&library)];
        cc(store.dir.path(), &link);
        store.make_index(&[]);
        let us = env!("CARGO_BIN_EXE_becalm");
        let (index, flags) = (store.index(), flags.join(" "));
        let script =
            format!("eval \"$({us} env {flags} --index {})\"; exec {}", text(&index), text(&user));
        // The loader takes the last value.
        let theirs = "glibc.rtld.optional_static_tls=512";
        run(Command::new("sh").env("GLIBC_TUNABLES", theirs).args(["-c", &script]))
    };
    // As redis-server with libjemalloc.
    let ran = session(3000, &[]);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("big thread\n", ""));
    // As a program of -fsanitize=thread: the session has to be told.
    let ran = session(800_000, &["--static-tls", "900000"]);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("big no thread\n", ""));
    let user = store.path("user");
    let ran = run(&mut store.becalm(&["run", "--strict", "--", text(&user)]));
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("big no thread\n", ""));
}

#[test]
fn a_run_leaves_small_stacks_to_the_program_and_static_tls_to_those_that_it_starts() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    store.source(
        "small.c",
        "#include <pthread.h>\n#include <stdlib.h>\n#include <string.h>\n\
         static void *thread(void *none)\n\
         { volatile char used[9000]; memset((char *) used, 1, sizeof used); return none; }\n\
         int main(void)\n\
         { pthread_t t; pthread_attr_t a; pthread_attr_init(&a);\n\
           pthread_attr_setstacksize(&a, 16384);\n\
           if (pthread_create(&t, &a, thread, 0)) return 1;\n\
           pthread_join(t, 0); return system(\"echo $GLIBC_TUNABLES\"); }\n",
    );
    let small = store.path("small");
    cc(store.dir.path(), &["-O1", "small.c", "-pthread", "-o", text(&small)]);
    let session = "glibc.rtld.optional_static_tls=4096\n";
    for (options, before, then) in [
        (&["--strict"][..], "", session),
        (&["--strict"], "", session),
        (&["--strict", "--only"], "glibc.malloc.check=0", "glibc.malloc.check=0\n"),
    ] {
        let mut start = store.becalm(&["run"]);
        start.args(options).arg("--").arg(&small);
        if !before.is_empty() {
            start.env("GLIBC_TUNABLES", before);
        }
        let ran = run(&mut start);
        assert_eq!((ran.code, &*ran.stdout), (Some(0), then), "{options:?} {ran:?}");
    }
}

#[test]
fn help_and_docs_have_the_static_tls_of_sessions_and_of_programs() {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/howto-calm.md");
    let docs = fs::read_to_string(docs).expect("the page");
    let help = |command| run(becalm().args([command, "--help"])).stdout;
    for (text, number) in [
        (&docs, SESSION),
        (&docs, PROGRAM),
        (&help("env"), SESSION),
        (&help("index"), SESSION),
        (&help("run"), SESSION),
        (&help("run"), PROGRAM),
    ] {
        assert!(text.contains(&number.to_string()), "{number}: {text}");
    }
}

/// A store whose program takes 20,000 bytes of static TLS, with its index.
fn large() -> Store {
    let store = Store::new();
    store.source(
        "one.c",
        "static __thread char big[20000] __attribute__((tls_model(\"initial-exec\")));\n\
         const char *one(void) { big[0] = 1; return big[0] ? \"one\" : \"none\"; }\n",
    );
    store.library("one.c", &store.one("libone.so"));
    store.make_index(&[]);
    store
}

/// Runs a command in the session of an index, with these programs in `PATH`.
fn in_session(store: &Store, path: &Path, then: &str) -> Ran {
    session_after(store, "", path, then)
}

/// Runs a command in the session of an index that is set up after another command.
fn session_after(store: &Store, before: &str, path: &Path, then: &str) -> Ran {
    let (us, index) = (env!("CARGO_BIN_EXE_becalm"), store.index());
    let script = format!("{before}eval \"$('{us}' env --index \"$INDEX\")\"; {then}");
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &script]).env("PATH", path).env("INDEX", index).env("US", us);
    for variable in ["LD_AUDIT", "GLIBC_TUNABLES", "BECALM", "LD_LIBRARY_PATH", "LD_PRELOAD"] {
        shell.env_remove(variable);
    }
    run(&mut shell)
}

#[test]
fn programs_start_under_a_preloaded_library_that_needs_more_static_tls_than_a_session_has() {
    if nothing_to_test_with() {
        return;
    }
    let (store, bare) = (Store::new(), Store::new());
    store.source(
        "preload.c",
        "__thread char big[20000] __attribute__((tls_model(\"initial-exec\")));\n\
         char *of(void) { return big; }\n",
    );
    let preload = store.path("preload.so");
    cc(store.dir.path(), &["-shared", "-fPIC", "-o", text(&preload), "preload.c"]);
    store.make_index(&[]);
    let cache = store.path("cache");
    let started = |arguments: &[&str]| {
        let mut command = store.becalm(&["run"]);
        command.args(arguments).arg("--").arg(store.app());
        command.env("LD_PRELOAD", &preload).env("XDG_CACHE_HOME", &cache);
        let ran = run(&mut command);
        assert_eq!((ran.code, &*ran.stdout), (Some(0), "one two\n"), "{arguments:?} {ran:?}");
    };
    // The index was made without it. Its own index is made by the first start, and used by the others.
    for _ in 0..2 {
        started(&["--index", text(&store.index())]);
    }
    started(&["--strict"]);
    started(&["--strict"]);
    let then = format!("exec '{}'", text(&store.app()));
    let under = format!("export LD_PRELOAD='{}'; ", text(&preload));
    let ran = session_after(&store, &under, Path::new("/nowhere"), &then);
    assert_eq!((ran.code, &*ran.stdout), (Some(0), "one two\n"), "{ran:?}");
    bare.make_index(&[]);
    let ran = in_session(&bare, Path::new("/nowhere"), "echo $GLIBC_TUNABLES");
    assert_eq!(ran.stdout, "glibc.rtld.optional_static_tls=4096\n", "{ran:?}");
}

#[test]
fn a_program_that_needs_more_static_tls_than_a_session_has_is_named_and_raises_it_for_no_other() {
    if nothing_to_test_with() {
        return;
    }
    let store = large();
    let (app, nowhere) = (store.app(), store.path("nowhere"));
    let ran = in_session(&store, &nowhere, "echo $GLIBC_TUNABLES");
    assert_eq!(ran.stdout, "glibc.rtld.optional_static_tls=4096\n", "{ran:?}");
    assert!(ran.stderr.contains(text(&app)) && ran.stderr.contains("becalm run"), "{ran:?}");
    assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
    let ran = run(&mut store.becalm(&["run", "--index", text(&store.index()), "--", text(&app)]));
    assert_eq!(ran.stdout, "one two\n", "run gives it what it needs: {ran:?}");
    // In PATH, for an index that does not have it.
    let other = Store::new();
    other.make_index(&[]);
    let bin = app.parent().expect("a folder");
    let ran = in_session(&other, bin, "echo $GLIBC_TUNABLES");
    assert_eq!(ran.stdout, "glibc.rtld.optional_static_tls=4096\n", "{ran:?}");
    for (store, whose) in [(&store, "of the index"), (&other, "in PATH")] {
        let ran = in_session(store, bin, "exec \"$US\" doctor --json");
        assert_eq!(ran.code, Some(1), "{ran:?}");
        let found: Value = serde_json::from_str(&ran.stdout).expect("JSON");
        let findings = found["findings"].as_array().expect("findings");
        let of_tls: Vec<_> = findings.iter().filter(|it| it["kind"] == "static-tls").collect();
        assert_eq!(of_tls.len(), 1, "{found}");
        assert!(of_tls[0]["what"].as_str().is_some_and(|what| what.contains(whose)), "{found}");
        let left = [&found["index"]["left_out"], &found["left_out"]];
        let left = left.map(|list| list[0]["path"].as_str());
        let is_left = |path: &&str| *path == text(&app);
        assert_eq!(left.into_iter().flatten().filter(is_left).count(), 1, "{found}");
    }
}

#[test]
fn env_looks_at_no_program_of_path() {
    if nothing_to_test_with() || is_missing("strace", "strace") {
        return;
    }
    let store = Store::new();
    store.make_index(&[]);
    let bin = store.path("bin");
    fs::create_dir(&bin).expect("made");
    for number in 0..100 {
        fs::copy(store.app(), bin.join(format!("app{number}"))).expect("copied");
    }
    let record = store.path("calls");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-e", "trace=%file", "-o", text(&record), env!("CARGO_BIN_EXE_becalm")]);
    strace.args(["env", "--index", text(&store.index())]).env("HOME", store.path("home"));
    strace.env_remove("LD_LIBRARY_PATH");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path =
        std::env::join_paths(std::iter::once(bin.clone()).chain(std::env::split_paths(&path)));
    let ran = run(strace.env("PATH", path.expect("a list")));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let calls = fs::read_to_string(&record).expect("a record");
    let calls: Vec<&str> = calls.lines().filter(|line| line.contains('(')).collect();
    assert!(calls.len() <= 60, "{} calls: {calls:#?}", calls.len());
    assert!(!calls.iter().any(|line| line.contains(text(&bin)) && !line.contains("execve(")));
}

#[test]
fn threads_with_small_stacks_start_in_a_session_whatever_its_programs_need() {
    if nothing_to_test_with() {
        return;
    }
    let store = large();
    let threads = "import threading\n\
                   for size in 32768, 65536:\n \
                   threading.stack_size(size); it = threading.Thread(target=print, args=(size,))\n \
                   it.start(); it.join()\n";
    for (program, package, arguments) in [
        ("java", "default-jre-headless", vec!["-Xss136k", "-version"]),
        ("python3", "python3", vec!["-c", threads]),
    ] {
        if is_missing(program, package) {
            continue;
        }
        let plain = run(Command::new(program).args(&arguments));
        assert_eq!(plain.code, Some(0), "{plain:?}");
        let quoted: Vec<String> = arguments.iter().map(|it| format!("'{it}'")).collect();
        let then = format!("exec {program} {}", quoted.join(" "));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let ran = in_session(&store, Path::new(&path), &then);
        assert_eq!((ran.code, &ran.stdout), (plain.code, &plain.stdout), "{ran:?}");
    }
}
