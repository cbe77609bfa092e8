//! `becalm index`, `becalm run`, `becalm env` and `becalm verify` of an index, on a small store:
//! which lookups the index answers, which the loader searches, and what is refused.

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use becalm_testing::skip;
use serde_json::Value;
use support::store::{FLAT, NESTED, Store, json, let_the_clock_pass, nothing_to_test_with, text};
use support::{assert_refused, becalm, cc, run};

#[test]
fn an_indexed_program_opens_nothing_in_vain() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let made = store.make_index(&[]);
    assert_eq!(made["schema"], "becalm/index/1");
    assert_eq!((&made["written"], &made["objects"]), (&Value::Bool(true), &Value::from(1)));
    assert!(made["edges"].as_u64() >= Some(3), "{made}");
    assert!(store.missed_opens(false, None) > 0);
    assert_eq!(store.missed_opens(true, None), 0);
}

#[test]
fn a_calmed_program_keeps_its_output_and_exit_code() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    store.make_index(&[]);
    let ran = run(store.calmed().arg("fails"));
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(37), "one two\n", ""));
}

#[test]
fn a_program_that_starts_under_no_audit_module_is_told_of() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    store.source(
        "one.c",
        "static __thread char big[8] __attribute__((tls_model(\"initial-exec\"), aligned(4096)));\n\
         const char *one(void) { big[0] = 1; return big[0] ? \"one\" : \"none\"; }\n",
    );
    store.library("one.c", &store.one("libone.so"));
    let (app, index) = (store.app(), store.index());
    assert_eq!(run(&mut Command::new(&app)).stdout, "one two\n");
    let made = store.make_index(&[]);
    assert_eq!(made["static_tls"][0]["path"], text(&app), "{made}");
    assert_eq!(made["static_tls"][0]["optional_static_tls"], Value::Null);
    let env = run(&mut store.becalm(&["env", "--index", text(&index)]));
    assert!(env.code == Some(0) && env.stderr.contains(text(&app)), "{env:?}");
    let ran = run(&mut store.calmed());
    assert!(ran.stdout == "one two\n" && ran.stderr.contains("thread-local"), "{ran:?}");
    // No module could help here: one that does nothing has the same effect.
    store.source("none.c", "unsigned la_version(unsigned v) { return v; }\n");
    store.library("none.c", &store.path("none.so"));
    let alone = run(Command::new(&app).env("LD_AUDIT", store.path("none.so")));
    assert_ne!(alone.code, Some(0), "{alone:?}");
}

#[test]
fn an_index_is_not_written_where_the_user_may_not() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let (closed, root) = (store.path("closed"), store.root());
    fs::create_dir(&closed).expect("made");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).expect("closed");
    if fs::write(closed.join("probe"), "").is_ok() {
        // Root may write anywhere; a path below a file cannot be written by anyone.
        let inside = store.app().join("index.so");
        let ran = run(&mut store.becalm(&["index", text(&root), "-o", text(&inside)]));
        assert_refused(&ran, "Not a directory");
        return;
    }
    let place = closed.join("index.so");
    let ran = run(&mut store.becalm(&["index", text(&root), "-o", text(&place)]));
    assert_refused(&ran, "Permission denied");
}

#[test]
fn the_default_index_is_found_by_run_and_env() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let (root, app) = (store.root(), store.app());
    let made = json(&run(&mut store.becalm(&["index", text(&root), "--json"])));
    let index = store.path("home/.local/share/becalm/index.so");
    assert_eq!(made["index"], text(&index));
    let ran = run(&mut store.becalm(&["run", "--no-ahead", "--", text(&app)]));
    assert_eq!(ran.stdout, "one two\n", "{ran:?}");
    assert!(!store.path("home/.cache").exists(), "no other index was needed");
    let ran = run(&mut store.becalm(&["env"]));
    assert!(ran.stdout.starts_with("export LD_AUDIT='") && ran.stdout.contains(text(&index)));
}

#[test]
fn a_library_path_overrides_the_index_as_it_overrides_the_search() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    store.make_index(&[]);
    let ran = run(store.calmed().env("LD_LIBRARY_PATH", store.path("other")));
    assert_eq!(ran.stdout, "mine two\n", "{ran:?}");
}

#[test]
fn a_snapshotted_directory_costs_nothing_and_a_library_added_to_it_is_found() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let mutable = store.path("mutable");
    fs::create_dir(&mutable).expect("made");
    let_the_clock_pass();
    let made = store.make_index(&["--dirs", text(&mutable)]);
    assert_eq!(made["directories"]["snapshotted"], 1, "{made}");
    assert_eq!(store.missed_opens(true, Some(text(&mutable))), 0);
    fs::copy(store.path("other/libone.so"), mutable.join("libone.so")).expect("copied");
    let ran = run(store.calmed().env("LD_LIBRARY_PATH", &mutable));
    assert_eq!(ran.stdout, "mine two\n", "{ran:?}");
    fs::remove_file(mutable.join("libone.so")).expect("removed");
    let ran = run(store.calmed().env("LD_LIBRARY_PATH", &mutable));
    assert_eq!(ran.stdout, "one two\n", "{ran:?}");
}

#[test]
fn a_directory_that_changed_a_moment_ago_is_not_trusted() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let mutable = store.path("mutable");
    fs::create_dir(&mutable).expect("made");
    // The index waits for the clock of the store's directories. This one's is ahead.
    let times = fs::FileTimes::new().set_modified(SystemTime::now() + Duration::from_secs(60));
    fs::File::open(&mutable).and_then(|dir| dir.set_times(times)).expect("set");
    let made = store.make_index(&["--dirs", text(&mutable)]);
    assert_eq!(made["directories"]["not_snapshotted"][0], text(&mutable), "{made}");
}

#[test]
fn a_package_deleted_after_indexing_is_searched_for_as_without_the_index() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let_the_clock_pass();
    store.make_index(&[]);
    assert_eq!(run(&mut store.calmed()).stdout, "one two\n");
    fs::remove_dir_all(store.root().join(FLAT[1])).expect("removed");
    let plain = run(&mut Command::new(store.app()));
    let ran = run(&mut store.calmed());
    assert_eq!((ran.code, ran.stderr), (plain.code, plain.stderr));
}

#[test]
fn in_a_store_of_nested_packages_each_answer_is_looked_at() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::of(NESTED);
    let first = store.two("libone.so");
    fs::copy(store.path("other/libone.so"), &first).expect("copied");
    let_the_clock_pass();
    store.make_index(&[]);
    assert_eq!(run(&mut store.calmed()).stdout, "mine two\n");
    // The store's own directory stays as it was.
    fs::remove_file(&first).expect("removed");
    assert_eq!(run(&mut store.calmed()).stdout, "one two\n");
}

#[test]
fn hard_links_of_one_object_are_indexed_under_every_path() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let second = store.root().join(FLAT[0]).join("bin/second");
    fs::hard_link(store.app(), &second).expect("linked");
    assert_eq!(store.make_index(&[])["objects"], 2);
}

#[test]
fn the_users_own_audit_modules_stay_in_the_list() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    store.make_index(&[]);
    store.source(
        "audit.c",
        "unsigned la_version(unsigned v) { return v; }\n\
         unsigned la_objopen(void *m, long l, void *c)\n\
         { static int once; extern long write(int, const void *, unsigned long);\n\
           if (!once++) write(1, \"audited \", 8); return 0; }\n",
    );
    store.library("audit.c", &store.path("audit.so"));
    let ran = run(store.calmed().env("LD_AUDIT", store.path("audit.so")));
    // becalm itself is a program that the user's module audits.
    assert_eq!(ran.stdout, "audited audited one two\n", "{ran:?}");
}

#[test]
fn update_keeps_a_current_index_and_adds_new_packages() {
    if nothing_to_test_with() {
        return;
    }
    // A package that is installed meanwhile changes the machine's loader cache.
    let store = Store::isolated();
    let_the_clock_pass();
    store.make_index(&[]);
    let index = store.index();
    let update =
        || json(&run(&mut store.becalm(&["index", "--update", "-o", text(&index), "--json"])));
    let before = fs::metadata(&index).expect("there").modified().expect("a time");
    assert_eq!(update()["written"], false);
    assert_eq!(fs::metadata(&index).expect("there").modified().expect("a time"), before);
    let package = store.root().join("456789abcdfghijklmnpqrsvwxyz0123-app-2/bin");
    fs::create_dir_all(&package).expect("made");
    fs::copy(store.app(), package.join("app")).expect("copied");
    let updated = update();
    assert_eq!((&updated["written"], &updated["objects"]), (&Value::Bool(true), &Value::from(2)));
}

#[test]
fn an_index_that_is_true_verifies_and_one_that_is_not_does_not() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let index = store.index();
    store.make_index(&[]);
    let verify = || run(&mut store.becalm(&["verify", "--json", text(&index)]));
    let ran = verify();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    fs::copy(store.path("other/libone.so"), store.two("libone.so")).expect("copied");
    let ran = verify();
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let found: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let difference = &found["indexes"][0]["differences"][0];
    assert_eq!(
        (&difference["kind"], &difference["needed"]),
        (&"answer".into(), &"libone.so".into())
    );
    assert_eq!(difference["now"], text(&store.two("libone.so")));
}

#[test]
fn a_log_of_the_module_is_shown_as_probes() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    store.make_index(&[]);
    let log = store.path("log");
    run(store.calmed().env("BECALM", format!("log:{}", text(&log))));
    let ran = run(&mut store.becalm(&["trace", "--from", text(&log), "--json"]));
    let report = json(&ran);
    let image = &report["images"][0];
    assert_eq!(image["missed_opens"], 0, "{report}");
    assert!(image["answered"].as_u64() >= Some(2), "{report}");
    assert_refused(
        &run(&mut store.becalm(&["trace", "--from", text(&store.path("app.c"))])),
        "not a log",
    );
}

#[test]
fn the_lines_for_a_shell_calm_it_and_undo_it() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    store.make_index(&[]);
    let (index, us, app) = (store.index(), env!("CARGO_BIN_EXE_becalm"), store.app());
    let (index, app) = (text(&index), text(&app));
    let script = format!(
        "LD_AUDIT=; unset LD_AUDIT; eval \"$({us} env --index {index})\"; echo \"$LD_AUDIT\"; {app}; \
         eval \"$({us} env --index {index} --undo)\"; echo \"${{LD_AUDIT-unset}}\""
    );
    let ran = run(Command::new("sh").args(["-c", &script]));
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert!(lines[0].starts_with(index), "{ran:?}");
    assert_eq!((lines[1], lines[2]), ("one two", "unset"), "{ran:?}");
    assert_eq!(ran.stderr, "");
}

#[test]
fn snippets_for_sessions_are_what_their_readers_take() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    store.make_index(&[]);
    let index = store.index();
    let scratch = store.dir.path();
    fs::set_permissions(scratch, fs::Permissions::from_mode(0o755)).expect("opened");
    if fs::metadata(scratch).expect("there").uid() != 0 {
        skip("what is for all users takes an index of root's");
        return;
    }
    let snippet = |what: &str| {
        let ran = run(&mut store.becalm(&["env", "--index", text(&index), "--for", what]));
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
        ran.stdout
    };
    let profile = store.path("profile.sh");
    fs::write(&profile, snippet("profile.d")).expect("written");
    let script =
        format!(". {0}; . {0}; echo \"$LD_AUDIT\"; {1}", text(&profile), text(&store.app()));
    let ran = run(Command::new("sh").env("LD_AUDIT", "").args(["-c", &script]));
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert!(!lines[0].contains(':') && lines[0].starts_with(text(&index)), "{ran:?}");
    assert_eq!((lines[1], ran.stderr.as_str()), ("one two", ""));
    assert!(snippet("systemd").contains("DefaultEnvironment=\"LD_AUDIT="));
    assert!(snippet("nixos").contains("environment.variables.LD_AUDIT = \""));
    assert!(snippet("fish").starts_with("set -gx LD_AUDIT '"));
}

#[test]
fn a_session_with_a_32_bit_program_prints_no_error() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    store.make_index(&[]);
    let loader = Path::new("/lib/ld-linux.so.2");
    if !cfg!(target_arch = "x86_64") || !loader.exists() {
        skip("no 32-bit loader (Debian: libc6:i386)");
        return;
    }
    let ran = run(&mut store.becalm(&["env", "--index", text(&store.index())]));
    let line = ran.stdout.lines().next().expect("a line");
    // The loader itself is a program of its machine.
    let script = format!("{line}; {} --list {}", text(loader), text(loader));
    let ran = run(Command::new("sh").args(["-c", &script]));
    assert!(!ran.stderr.contains("LD_AUDIT") && !ran.stderr.contains("audit"), "{ran:?}");
}

#[test]
fn fix_with_audit_calms_one_program_by_itself_and_undo_takes_it_back() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let (root, app) = (store.root(), store.app());
    let old = fs::read(&app).expect("read");
    let fix = ["fix", "--with", "audit", "--store", text(&root), text(&app)];
    let ran = run(&mut store.becalm(&fix));
    if ran.code == Some(2) && ran.stderr.contains("glibc-2.32") {
        skip("a glibc before 2.32");
        return;
    }
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(store.missed_opens(false, None), 0);
    assert_eq!(run(&mut Command::new(&app)).stdout, "one two\n");
    assert_eq!(run(&mut store.becalm(&["undo", text(&app)])).code, Some(0));
    // Named by another path it is the same program.
    let folder = app.parent().expect("a folder");
    let fix = ["fix", "--dry-run", "--json", "--with", "audit", "--store", text(&root), "./app"];
    let planned = json(&run(store.becalm(&fix).current_dir(folder)));
    let start = &planned["programs"][0];
    assert!(start["before"]["missed_opens"].as_u64() > Some(0), "{start}");
    assert_eq!(start["after"]["missed_opens"], 0, "{start}");
    assert_eq!(fs::read(&app).expect("read"), old);
    assert!(!root.join(FLAT[0]).join("bin/app.becalm.so").exists());
}

#[test]
fn static_tls_is_raised_for_the_program_that_needs_it_and_audit_alone_refused() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    store.source(
        "one.c",
        "static __thread char big[3000] __attribute__((tls_model(\"initial-exec\")));\n\
         const char *one(void) { big[0] = 1; return big[0] ? \"one\" : \"none\"; }\n",
    );
    store.library("one.c", &store.one("libone.so"));
    let (root, app, index) = (store.root(), store.app(), store.index());
    let made = store.make_index(&[]);
    assert_eq!(made["static_tls"][0]["path"], text(&app), "{made}");
    assert!(made["static_tls"][0]["optional_static_tls"].as_u64() >= Some(3000), "{made}");
    let alone = run(Command::new(&app).env("LD_AUDIT", &index).env_remove("GLIBC_TUNABLES"));
    assert!(alone.code != Some(0) && alone.stderr.contains("static TLS"), "{alone:?}");
    assert_eq!(run(&mut store.calmed()).stdout, "one two\n");
    let fix = ["fix", "--with", "audit", "--store", text(&root), text(&app)];
    let ran = run(&mut store.becalm(&fix));
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("static TLS") || ran.stderr.contains("glibc-2.32"), "{ran:?}");
}

#[test]
fn indexing_what_is_not_there_or_holds_nothing_is_refused() {
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let (gone, out) = (scratch.path().join("gone"), scratch.path().join("index.so"));
    let index = |arguments: &[&str]| run(becalm().arg("index").args(arguments));
    assert_refused(&index(&[text(&gone), "-o", text(&out)]), "No such file or directory");
    let empty = scratch.path().join("empty");
    fs::create_dir(&empty).expect("made");
    assert_refused(&index(&[text(&empty), "-o", text(&out)]), "nothing to index");
    fs::write(empty.join("module.py"), "import os\n").expect("written");
    let paths = index(&["--paths", text(&empty), "-o", text(&out)]);
    assert_refused(&paths, "--program names the program whose lookups the paths answer");
    let nowhere = scratch.path().join("nowhere/index.so");
    assert_refused(&index(&[text(&empty), "-o", text(&nowhere)]), "No such file or directory");
    fs::write(&out, "a text").expect("written");
    assert_refused(&index(&[text(&empty), "-o", text(&out)]), "not overwritten");
    assert_eq!(fs::read(&out).expect("read"), b"a text");
}

#[test]
fn with_an_index_that_cannot_be_used_the_program_starts_and_becalm_says_why() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    store.make_index(&[]);
    let index = store.index();
    let whole = fs::read(&index).expect("read");
    let attempt = |why: &str| {
        let ran = run(&mut store.calmed());
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "one two\n"), "{ran:?}");
        assert!(ran.stderr.lines().count() == 1 && ran.stderr.contains(why), "{why}: {ran:?}");
        let app = store.app();
        let strict = ["run", "--strict", "--index", text(&index), "--", text(&app)];
        assert_refused(&run(&mut store.becalm(&strict)), why);
    };
    fs::write(&index, &whole[..whole.len() / 2]).expect("written");
    attempt(text(&index));
    fs::write(&index, b"\x7fELF").expect("written");
    attempt("not an index");
    let mut flipped = whole.clone();
    let table = flipped.windows(8).rposition(|bytes| bytes == b"becalmIX").expect("a table");
    flipped[table + 28] ^= 1;
    fs::write(&index, &flipped).expect("written");
    attempt("damaged");
    fs::write(&index, &whole).expect("written");
    fs::set_permissions(&index, fs::Permissions::from_mode(0o666)).expect("opened");
    attempt("may write");
    fs::remove_file(&index).expect("removed");
    attempt("No such file or directory");
}

#[test]
fn what_cannot_be_started_is_refused() {
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let attempt =
        |arguments: &[&str]| run(becalm().env("HOME", scratch.path()).arg("run").args(arguments));
    assert_refused(&attempt(&[]), "no command");
    for (name, code, words) in [
        ("no-such-command-anywhere", 127, "command not found"),
        ("/no/such/command", 127, "No such file"),
        ("/", 126, "Permission denied"),
        ("/etc/passwd", 126, "Permission denied"),
    ] {
        let ran = attempt(&["--", name]);
        assert!(ran.code == Some(code) && ran.stderr.contains(words), "{ran:?}");
    }
}

#[test]
fn static_programs_and_those_for_musl_are_started() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    store.source("plain.c", "#include <stdio.h>\nint main(void) { puts(\"plain\"); return 5; }\n");
    let plain = store.path("plain");
    cc(store.dir.path(), &["-static", "plain.c", "-o", text(&plain)]);
    let ran = run(&mut store.becalm(&["run", "--", text(&plain)]));
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(5), "plain\n", ""));
    let musl = store.path("musl");
    let mut compile = Command::new("musl-gcc");
    compile.current_dir(store.dir.path()).args(["plain.c", "-o", text(&musl)]);
    if !compile.output().is_ok_and(|made| made.status.success()) {
        skip("no musl-gcc (Debian: musl-tools)");
        return;
    }
    let ran = run(&mut store.becalm(&["run", "--", text(&musl)]));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(5), "plain\n"), "{ran:?}");
    assert!(ran.stderr.lines().count() == 1 && ran.stderr.contains("musl's loader"), "{ran:?}");
    let quiet = run(&mut store.becalm(&["run", "--quiet", "--", text(&musl)]));
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("plain\n", ""));
    let strict = run(&mut store.becalm(&["run", "--strict", "--", text(&musl)]));
    assert_refused(&strict, "musl's loader");
}

#[test]
fn a_link_to_an_index_stays_a_link() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    store.make_index(&[]);
    let (link, root) = (store.path("link.so"), store.root());
    symlink(store.index(), &link).expect("linked");
    let ran = run(&mut store.becalm(&["index", text(&root), "-o", text(&link)]));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(fs::read_link(&link).is_ok());
}
