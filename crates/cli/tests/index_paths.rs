//! `becalm index --paths`, `run --paths` and `env --paths`: file lookups answered from an index.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use support::store::{Store, let_the_clock_pass, nothing_to_test_with, text};
use support::{cc, run};

/// True if the module of this machine answers file lookups.
const HAS_STUBS: bool = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));
const PACKAGE: &str = "packages/0123456789abcdfghijklmnpqrsvwxyz-p";

/// A program outside the store that asks for a file of a package, and a store of one package.
fn scene() -> Store {
    let store = Store::new();
    fs::create_dir_all(store.path(PACKAGE).join("lib/python")).unwrap();
    fs::write(store.path(PACKAGE).join("lib/python/there.py"), "").unwrap();
    fs::create_dir_all(store.path("packages/plain/lib")).unwrap();
    let source = format!(
        "#include <stdio.h>\n#include <errno.h>\n#include <sys/stat.h>\nint main(void) \
         {{ struct stat s; int r = stat(\"{}/lib/python/not.py\", &s); printf(\"%d %d\\n\", r, errno); }}",
        store.path(PACKAGE).display()
    );
    store.source("ask.c", &source);
    cc(store.dir.path(), &["-o", "ask", "ask.c"]);
    let_the_clock_pass();
    store
}

/// The module's log line about the paths of a start, whose output is that of the kernel's answer.
fn outcome(store: &Store, arguments: &[&str]) -> String {
    store.logged("paths", "-1 2\n", arguments)
}

#[test]
fn paths_are_indexed_used_verified_and_brought_up_to_date() {
    if nothing_to_test_with() || !HAS_STUBS {
        return;
    }
    let store = scene();
    let (packages, ask, index) = (store.path("packages"), store.path("ask"), store.path("i.so"));
    let (packages, ask, index) = (text(&packages), text(&ask), text(&index));
    let line = ["index", "--json", "--paths", packages, "--program", ask, "-o", index];
    let made = run(&mut store.becalm(&line));
    assert_eq!(made.code, Some(0), "{made:?}");
    let json: serde_json::Value = serde_json::from_str(&made.stdout).unwrap();
    let of_paths = &json["paths"];
    assert_eq!((&of_paths["packages"], &of_paths["paths"]), (&1.into(), &4.into()), "{json}");
    let served = outcome(&store, &["run", "--paths", "--index", index, "--", ask]);
    assert!(served.starts_with("served\t"), "{served}");
    assert_eq!(outcome(&store, &["run", "--index", index, "--", ask]), "nothing");
    assert_eq!(run(&mut store.becalm(&["verify", index])).code, Some(0));
    let env = run(&mut store.becalm(&["env", "--paths", "--index", index]));
    assert!(env.stdout.contains("export BECALM='paths'"), "{env:?}");
    // A file that comes deep in a package is only seen by verify.
    fs::write(store.path(PACKAGE).join("lib/python/late.py"), "").unwrap();
    let_the_clock_pass();
    let verified = run(&mut store.becalm(&["verify", index]));
    assert_eq!(verified.code, Some(1), "{verified:?}");
    assert!(verified.stdout.contains("it was changed in place"), "{verified:?}");
    // The package is young, so that an update reads it again; program and stores stay.
    let again = run(&mut store.becalm(&["index", "--json", "--update", "-o", index]));
    assert_eq!(again.code, Some(0), "{again:?}");
    let json: serde_json::Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!((&json["paths"]["paths"], &json["paths"]["read"]), (&5.into(), &1.into()), "{json}");
    assert_eq!(run(&mut store.becalm(&["verify", index])).code, Some(0));
    let served = outcome(&store, &["run", "--paths", "--index", index, "--", ask]);
    assert!(served.starts_with("served\t"), "{served}");
    // Every directory is a package of a store that is named as one.
    let line = ["index", "--json", "--paths", packages, "--store", packages, "--program", ask];
    let all = run(&mut store.becalm(&[&line[..], &["-o", index]].concat()));
    let json: serde_json::Value = serde_json::from_str(&all.stdout).unwrap();
    assert_eq!(json["paths"]["packages"], 2, "{json}");
}

#[test]
fn a_program_that_the_index_does_not_know_gets_an_index_with_the_same_paths() {
    if nothing_to_test_with() || !HAS_STUBS {
        return;
    }
    let store = scene();
    let (packages, ask, index) = (store.path("packages"), store.path("ask"), store.path("i.so"));
    let (packages, ask, index) = (text(&packages), text(&ask), text(&index));
    store.source("stranger.c", "int main(void) { return 0; }\n");
    cc(store.dir.path(), &["-o", "stranger", "stranger.c"]);
    let_the_clock_pass();
    let other = store.path("stranger");
    let line = ["index", "--paths", packages, "--program", text(&other), "-o", index];
    assert_eq!(run(&mut store.becalm(&line)).code, Some(0));
    let served = outcome(&store, &["run", "--strict", "--paths", "--index", index, "--", ask]);
    assert!(served.starts_with("served\t"), "{served}");
    // An index without paths is refused.
    let line = ["index", "--program", ask, "-o", index];
    assert_eq!(run(&mut store.becalm(&line)).code, Some(0));
    let refused =
        run(&mut store.becalm(&["run", "--strict", "--paths", "--index", index, "--", ask]));
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("the index has no paths"), "{refused:?}");
}

/// The programs of a traced run and the packages that they searched are indexed, and nothing else.
#[test]
fn what_a_traced_run_searched_is_indexed() {
    if nothing_to_test_with() || !HAS_STUBS {
        return;
    }
    let store = scene();
    fs::create_dir_all(store.path("packages/9123456789abcdfghijklmnpqrsvwxyz-q/lib")).unwrap();
    let_the_clock_pass();
    let (ask, index, record) = (store.path("ask"), store.path("i.so"), store.path("run.json"));
    let (ask, index, record) = (text(&ask), text(&index), text(&record));
    let traced = run(&mut store.becalm(&["trace", "--json", "-o", record, "--", ask]));
    assert_eq!(traced.code, Some(0), "{traced:?}");
    let line = ["index", "--json", "--paths-from", record, "-o", index];
    let made = run(&mut store.becalm(&line));
    assert_eq!(made.code, Some(0), "{made:?}");
    let json: serde_json::Value = serde_json::from_str(&made.stdout).unwrap();
    assert_eq!((&json["paths"]["packages"], &json["bindings"]["programs"]), (&1.into(), &1.into()));
    let served = outcome(&store, &["run", "--paths", "--index", index, "--", ask]);
    assert!(served.starts_with("served\t"), "{served}");
    // An update adds no package of the store, and keeps those that are there.
    fs::create_dir_all(store.path("packages/8123456789abcdfghijklmnpqrsvwxyz-r/lib")).unwrap();
    let_the_clock_pass();
    let update = ["index", "--json", "--update", "-o", index];
    let again = run(&mut store.becalm(&update));
    assert!(again.stdout.contains("\"written\":false"), "{again:?}");
    fs::create_dir(store.path(PACKAGE).join("share")).unwrap();
    let_the_clock_pass();
    let again = run(&mut store.becalm(&update));
    let json: serde_json::Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!(json["paths"]["packages"], 1, "{again:?}");
    // Something else than a record is refused.
    fs::write(store.path("other.json"), "{}").unwrap();
    let other = store.path("other.json");
    let line = ["index", "--paths-from", text(&other), "-o", index];
    assert_eq!(run(&mut store.becalm(&line)).code, Some(2));
}

#[test]
fn directories_that_change_in_place_missing_or_not_do_not_stop_an_index() {
    if nothing_to_test_with() || !HAS_STUBS {
        return;
    }
    let store = scene();
    let (dir, ask, index) = (store.path("packages"), store.path("ask"), store.path("i.so"));
    let (dirs, ask, index) = (format!("{}:/no/where", text(&dir)), text(&ask), text(&index));
    let line = ["index", "--json", "--path-dirs", &dirs, "--program", ask, "-o", index];
    let made = run(&mut store.becalm(&line));
    assert_eq!(made.code, Some(0), "{made:?}");
    assert!(made.stderr.contains("--path-dirs: not indexed"), "{made:?}");
    let json: serde_json::Value = serde_json::from_str(&made.stdout).unwrap();
    assert!(json["paths"].is_null(), "{json}");
    let ran = run(&mut store.becalm(&["run", "--paths", "--index", index, "--", ask]));
    assert_eq!(ran.code, run(&mut std::process::Command::new(ask)).code, "{ran:?}");
}

/// Sets when a directory was changed: in an hour, so that it is changing, or an hour ago.
fn set_changing(dir: &Path, changing: bool) {
    let hour = Duration::from_secs(3600);
    let time = if changing { SystemTime::now() + hour } else { SystemTime::now() - hour };
    fs::File::open(dir).unwrap().set_modified(time).unwrap();
    let_the_clock_pass();
}

#[test]
fn an_index_of_packages_that_were_just_installed_is_up_to_date() {
    if nothing_to_test_with() || !HAS_STUBS {
        return;
    }
    let store = scene();
    let (packages, ask, index) = (store.path("packages"), store.path("ask"), store.path("i.so"));
    let (packages, ask, index) = (text(&packages), text(&ask), text(&index));
    let line = ["index", "--paths", packages, "--program", ask, "-o", index];
    assert_eq!(run(&mut store.becalm(&line)).code, Some(0));
    let again = run(&mut store.becalm(&["index", "--json", "--update", "-o", index]));
    assert!(again.stdout.contains("\"written\":false"), "{again:?}");
    // The packages are as they were by their own directories.
    fs::write(store.path(PACKAGE).join("lib/python/late.py"), "").unwrap();
    let_the_clock_pass();
    let again = run(&mut store.becalm(&["index", "--json", "--update", "-o", index]));
    let json: serde_json::Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!((&json["written"], &json["paths"]["paths"]), (&true.into(), &5.into()), "{json}");
}

#[test]
fn what_changed_while_it_was_indexed_is_named_and_an_update_adds_it() {
    if nothing_to_test_with() || !HAS_STUBS {
        return;
    }
    let store = scene();
    let (packages, ask, index) = (store.path("packages"), store.path("ask"), store.path("i.so"));
    let (packages, ask, index) = (text(&packages), text(&ask), text(&index));
    let (python, record) = (store.path(PACKAGE).join("lib/python"), store.path("run.json"));
    let traced = run(&mut store.becalm(&["trace", "--json", "-o", text(&record), "--", ask]));
    assert_eq!(traced.code, Some(0), "{traced:?}");
    let of = |line: &[&str]| {
        let ran = run(&mut store.becalm(&[line, &["-o", index]].concat()));
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran.stdout
    };
    let answer = || outcome(&store, &["run", "--paths", "--index", index, "--", ask]);
    let ways: [&[&str]; 2] = [
        &["index", "--paths", packages, "--program", ask],
        &["index", "--paths-from", text(&record)],
    ];
    for line in ways {
        set_changing(&python, true);
        let made = of(line);
        let package = store.path(PACKAGE);
        let named = format!("{}: its paths are not indexed (it changed", package.display());
        assert!(made.contains(&named) && made.contains("index --update adds"), "{line:?}: {made}");
        answer();
        // It is still changing.
        assert!(of(&["index", "--update"]).contains(&named), "{line:?}");
        set_changing(&python, false);
        let json: serde_json::Value =
            serde_json::from_str(&of(&["index", "--update", "--json"])).unwrap();
        assert_eq!(json["paths"]["packages"], 1, "{line:?}: {json}");
        assert_eq!(json["paths"]["left_out"], serde_json::json!([]), "{line:?}: {json}");
        assert!(answer().starts_with("served\t"), "{line:?}");
        let again = of(&["index", "--update", "--json"]);
        assert!(again.contains("\"written\":false"), "{line:?}: {again}");
    }
}

#[test]
fn every_program_of_a_folder_is_indexed() {
    if nothing_to_test_with() {
        return;
    }
    let store = scene();
    fs::create_dir(store.path("bin")).unwrap();
    for name in ["one", "two"] {
        fs::copy(store.path("ask"), store.path("bin").join(name)).unwrap();
    }
    fs::write(store.path("bin/script"), "#!/bin/sh\n").unwrap();
    let_the_clock_pass();
    let (bin, index) = (store.path("bin"), store.path("i.so"));
    let line = ["index", "--json", "--program", text(&bin), "-o", text(&index)];
    let made = run(&mut store.becalm(&line));
    assert_eq!(made.code, Some(0), "{made:?}");
    let json: serde_json::Value = serde_json::from_str(&made.stdout).unwrap();
    assert_eq!(json["bindings"]["programs"], 2, "{json}");
}

/// The interpreter of a script that the index does not know is added, and what the script starts is
/// served as before.
#[test]
fn a_scripts_interpreter_is_added_to_the_programs_of_the_index() {
    if nothing_to_test_with() || !HAS_STUBS {
        return;
    }
    let store = scene();
    let (packages, ask, index) = (store.path("packages"), store.path("ask"), store.path("i.so"));
    let (packages, ask, index) = (text(&packages), text(&ask), text(&index));
    let line = ["index", "--paths", packages, "--program", ask, "-o", index];
    assert_eq!(run(&mut store.becalm(&line)).code, Some(0));
    store.source("script", &format!("#!/bin/sh\n{ask}\n:\n"));
    let script = store.path("script");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let log = store.path("log");
    let line = ["run", "--strict", "--paths", "--index", index, "--", text(&script)];
    let mut command = store.becalm(&line);
    command.env("BECALM", format!("log:{}", log.display()));
    let ran = run(&mut command);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "-1 2\n"), "{ran:?}");
    let said = fs::read_to_string(&log).unwrap();
    let served = said.lines().filter(|line| line.contains("\tpaths\t0\tserved\t")).count();
    assert_eq!(served, 2, "{said}");
}
