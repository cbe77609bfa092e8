//! `becalm env`: an index of one user is not printed for all, and a session starts programs that need more
//! static TLS.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use becalm_testing::skip;
use support::store::{Store, nothing_to_test_with, text};
use support::{assert_refused, cc, run};

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
         static void *thread(void *none) { return none; }\n\
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
        // No program of the machine counts.
        let script = format!(
            "eval \"$(PATH=/nowhere {us} env {flags} --index {})\"; exec {}",
            text(&index),
            text(&user)
        );
        // The loader takes the last value.
        let theirs = "glibc.rtld.optional_static_tls=512";
        run(Command::new("sh").env("GLIBC_TUNABLES", theirs).args(["-c", &script]))
    };
    // As redis-server with libjemalloc.
    let ran = session(6000, &[]);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("big thread\n", ""));
    // As a program of -fsanitize=thread: the session has to be told.
    let ran = session(800_000, &["--static-tls", "900000"]);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("big no thread\n", ""));
    let user = store.path("user");
    let ran = run(&mut store.becalm(&["run", "--strict", "--", text(&user)]));
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("big no thread\n", ""));
}

#[test]
fn a_session_starts_thread_sanitizer_programs_that_path_names() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    store.make_index(&[]);
    store.source("racy.c", "#include <stdio.h>\nint main(void) { puts(\"watched\"); return 0; }\n");
    let bin = store.path("bin");
    fs::create_dir(&bin).expect("made");
    let racy = bin.join("racy");
    let mut compile = Command::new("cc");
    compile.current_dir(store.dir.path());
    compile.args(["-fsanitize=thread", "racy.c", "-o", text(&racy)]);
    let is_made = compile.output().is_ok_and(|made| made.status.success());
    if !is_made || run(&mut Command::new(&racy)).stdout != "watched\n" {
        skip("no -fsanitize=thread (Debian: libgcc-12-dev), or its programs do not start here");
        return;
    }
    let (us, index) = (env!("CARGO_BIN_EXE_becalm"), store.index());
    let session = |path: &Path, flags: &str, then: &str| {
        let (path, index) = (text(path), text(&index));
        let script = format!("eval \"$(PATH={path} {us} env {flags} --index {index})\"; {then}");
        run(Command::new("sh").env_remove("GLIBC_TUNABLES").args(["-c", &script]))
    };
    let start = format!("exec {}", text(&racy));
    let ran = session(&bin, "", &start);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "watched\n"), "{ran:?}");
    // Threads with small stacks fail then: the user is told, and may choose.
    assert!(ran.stderr.contains(text(&racy)) && ran.stderr.contains("--static-tls"), "{ran:?}");
    assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
    let ran = session(&bin, "--static-tls 8192", &start);
    assert!(ran.stderr.contains("static TLS") && ran.stdout.is_empty(), "{ran:?}");
    // A file that two names lead to is looked at once, a program that no name leads to not at all.
    std::os::unix::fs::symlink(&racy, bin.join("again")).expect("linked");
    assert_eq!(session(&bin, "", &start).stderr.lines().count(), 1);
    let undo = format!(
        "eval \"$(PATH={} {us} env --undo --index {})\"; echo ${{GLIBC_TUNABLES-unset}}",
        text(&bin),
        text(&index)
    );
    assert_eq!(session(&bin, "", &undo).stdout, "unset\n");
    let without = session(&store.path("gone"), "", "echo $GLIBC_TUNABLES");
    assert_eq!(without.stdout, "glibc.rtld.optional_static_tls=8192\n", "{without:?}");
}
