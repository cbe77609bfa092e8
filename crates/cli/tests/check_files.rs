//! `becalm check --files`, `--ndjson` and `--shard`, and what scripts lead to.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use support::store::{FLAT, Store, json, nothing_to_test_with, text};
use support::{Ran, becalm, check, run};

fn executable(path: &Path, text: &str) {
    fs::write(path, text).expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("opened");
}

/// The lines of a survey.
fn lines(ran: &Ran) -> Vec<Value> {
    let line = |line| serde_json::from_str(line).expect("an object a line");
    ran.stdout.lines().map(line).collect()
}

#[test]
fn the_files_of_a_start_are_listed_with_their_links() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::of(FLAT);
    let versioned = store.one("libone.so.1");
    fs::rename(store.one("libone.so"), &versioned).expect("renamed");
    std::os::unix::fs::symlink("libone.so.1", store.one("libone.so")).expect("linked");
    let app = store.app();
    let ran = check(&["--files", text(&app)]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    let listed: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(listed[0], text(&app));
    for file in [&versioned, &store.one("libone.so"), &store.two("libtwo.so")] {
        assert!(listed.contains(&text(file)), "{file:?}: {listed:?}");
    }
    let unique: BTreeSet<&str> = listed.iter().copied().collect();
    assert_eq!(unique.len(), listed.len(), "each once");
    // These files, and no others, make the program start in a root of their own.
    let json = json(&check(&["--files", "--json", text(&app)]));
    let files = json["programs"][0]["files"].as_array().expect("files");
    let paths: Vec<&str> = files.iter().map(|file| file["path"].as_str().expect("text")).collect();
    assert_eq!(paths, listed);
    let link = files.iter().find(|file| file["path"] == text(&store.one("libone.so")));
    assert_eq!(link.expect("the link")["target"], "libone.so.1");
    let null = check(&["--files", "--format", "null", text(&app)]);
    assert_eq!(null.stdout.split_terminator('\0').collect::<Vec<_>>(), listed);
    // Of two programs each file is listed once.
    let both = check(&["--files", text(&app), "/bin/sh"]);
    let both: Vec<&str> = both.stdout.lines().collect();
    assert_eq!(both.iter().collect::<BTreeSet<_>>().len(), both.len());
}

/// A directory tree of the listed files alone is enough to run the program.
#[test]
fn a_root_of_the_listed_files_alone_starts_the_program() {
    if nothing_to_test_with() {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        becalm_testing::skip("only root can change the root");
        return;
    }
    let store = Store::of(FLAT);
    let app = store.app();
    let listed = check(&["--files", text(&app)]).stdout;
    let root = store.path("root");
    for line in listed.lines() {
        let to = root.join(line.trim_start_matches('/'));
        fs::create_dir_all(to.parent().expect("a folder")).expect("made");
        match fs::read_link(line) {
            Ok(target) => std::os::unix::fs::symlink(target, to).expect("linked"),
            Err(_) => drop(fs::copy(line, to).expect("copied")),
        }
    }
    let ran = run(std::process::Command::new("chroot").arg(&root).arg(&app));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "one two\n"), "{ran:?}");
}

#[test]
fn a_bundle_of_cernvm_fs_has_the_paths_within_the_repository() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::of(FLAT);
    let (app, root) = (store.app(), store.root());
    let arguments =
        ["--files", "--format", "cvmfs-bundle", "--repository", text(&root), text(&app)];
    let bundle = json(&check(&arguments));
    assert_eq!(bundle["name"], "CVMFS_BUNDLE");
    assert_eq!((&bundle["version"], &bundle["encoding"]), (&"1.0.0".into(), &"UTF-8".into()));
    let inside =
        |path: PathBuf| format!("/{}", text(path.strip_prefix(&root).expect("in the repository")));
    let mut expected = [inside(store.one("libone.so")), inside(store.two("libtwo.so"))];
    expected.sort();
    assert_eq!(bundle["dependencies"], Value::from(expected.to_vec()));
    let outside = check(&["--files", "--format", "cvmfs-bundle", text(&app)]);
    assert_eq!(outside.code, Some(2), "{outside:?}");
    assert!(outside.stderr.contains("/cvmfs/REPOSITORY"), "{outside:?}");
    let two = check(&["--files", "--format", "cvmfs-bundle", text(&app), "/bin/sh"]);
    assert!(two.code == Some(2) && two.stderr.contains("of one program"), "{two:?}");
}

#[test]
fn wrapper_scripts_are_followed_to_the_program() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::of(FLAT);
    let (app, wrapper) = (store.app(), store.path("wrapper"));
    executable(
        &wrapper,
        &format!(
            "#!/bin/sh\nexport LD_LIBRARY_PATH='/x'\nexec -a \"$0\" \"{}\" \"$@\"\n",
            text(&app)
        ),
    );
    let ran = check(&["--json", text(&wrapper)]);
    let program = json(&ran)["programs"][0].take();
    assert_eq!(
        (&program["path"], &program["scripts"][0]),
        (&text(&app).into(), &text(&wrapper).into())
    );
    assert!(ran.stderr.contains("sets LD_LIBRARY_PATH"), "{ran:?}");
    let screen = check(&[text(&wrapper)]).stdout;
    assert!(screen.contains(&format!("started by the script {}", text(&wrapper))), "{screen}");
    let listed = check(&["--files", text(&wrapper)]).stdout;
    let listed: Vec<&str> = listed.lines().collect();
    assert_eq!(listed[0], text(&wrapper));
    let shell = fs::canonicalize("/bin/sh").expect("a shell");
    assert!(listed.contains(&text(&shell)) && listed.contains(&text(&app)), "{listed:?}");
}

#[test]
fn names_are_found_along_path_and_scripts_lead_to_their_interpreter() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let script = dir.path().join("script");
    executable(&script, "#! /usr/bin/env -S sh\n");
    let checked = |name: &str| {
        let mut check = becalm();
        check.args(["check", "--json", name]).current_dir(dir.path()).env("PATH", "/none:/bin");
        run(&mut check)
    };
    for name in ["sh", "script"] {
        let ran = checked(name);
        assert_eq!(json(&ran)["programs"][0]["path"], "/bin/sh", "{ran:?}");
    }
    let ran = checked("no-such-program");
    let report: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(
        (ran.code, &report["programs"]),
        (Some(2), &Value::from(Vec::<Value>::new())),
        "{ran:?}"
    );
    assert!(ran.stderr.contains("no-such-program: No such file or directory"), "{ran:?}");
    executable(&dir.path().join("lost"), "#!/usr/bin/env no-such-program\n");
    let ran = checked("lost");
    assert!(ran.stderr.contains("lost: the program of the script is no-such-program"), "{ran:?}");
}

#[test]
fn a_python_script_in_a_store_root_is_a_finding() {
    let store = tempfile::tempdir().expect("a scratch directory");
    let python = store.path().join("0123456789abcdfghijklmnpqrsvwxyz-python/bin/python3");
    fs::create_dir_all(python.parent().expect("a folder")).expect("made");
    fs::copy("/bin/sh", &python).expect("copied");
    let script = store.path().join("tool.py");
    executable(&script, &format!("#!{}\n", text(&python)));
    let with = |script: &Path| check(&["--store", text(store.path()), text(script)]);
    let ran = with(&script);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("sys.path"), "{ran:?}");
    executable(&script, &format!("#!{} -P\n", text(&python)));
    assert_eq!(with(&script).code, Some(0));
}

#[test]
fn a_survey_has_a_line_for_each_file_and_its_shards_are_the_whole() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::of(FLAT);
    let root = store.root();
    for number in 0..20 {
        let copy = store.app().with_file_name(format!("app{number}"));
        fs::copy(store.app(), copy).expect("copied");
    }
    fs::hard_link(store.app(), store.app().with_file_name("another-name")).expect("linked");
    let survey = |more: &[&str]| {
        let arguments = [&["--ndjson", "--store", text(&root), text(&root)][..], more].concat();
        let ran = check(&arguments);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        lines(&ran)
    };
    let all = survey(&[]);
    assert_eq!(all.len(), 23, "a file with two names is checked once");
    let path = |line: &Value| line["path"].as_str().expect("a path").to_owned();
    let paths: BTreeSet<String> = all.iter().map(path).collect();
    let line = all.iter().find(|line| path(line).ends_with("/app7")).expect("a line");
    assert_eq!(line["schema"], "becalm/survey/1");
    assert_eq!(line["package"], text(&root.join(FLAT[0])));
    assert!(line["storm"]["missed_opens"].as_u64() > Some(0), "{line}");
    let facts = fs::metadata(store.app()).expect("is there");
    assert_eq!(line["bytes"].as_u64(), Some(facts.len()));
    let one =
        json(&check(&["--json", "--store", text(&root), line["path"].as_str().expect("text")]));
    assert_eq!(line["storm"], one["programs"][0]["storm"], "as becalm check has it");
    // Each name of a file may be in another share.
    fs::remove_file(store.app().with_file_name("another-name")).expect("removed");
    let shards = ["1/3", "2/3", "3/3"].map(|shard| survey(&["--shard", shard]));
    let sizes: Vec<usize> = shards.iter().map(Vec::len).collect();
    assert!(sizes.iter().all(|&size| size < 23), "{sizes:?}");
    let together: Vec<String> = shards.iter().flatten().map(path).collect();
    assert_eq!(together.len(), 23);
    let without = |paths: BTreeSet<String>| {
        paths
            .into_iter()
            .filter(|path| !path.ends_with("-name") && !path.ends_with("bin/app"))
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(without(together.into_iter().collect()), without(paths));
}

#[test]
fn a_survey_tells_what_it_cannot_check_in_a_line_and_goes_on() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    fs::write(dir.path().join("broken"), b"\x7fELF and no more").expect("written");
    fs::copy("/bin/sh", dir.path().join("sh")).expect("copied");
    let gone = dir.path().join("gone");
    let ran = check(&["--ndjson", text(dir.path()), text(&gone)]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    let lines = lines(&ran);
    let errors: Vec<&Value> = lines.iter().filter(|line| line.get("error").is_some()).collect();
    assert_eq!((lines.len(), errors.len()), (3, 2), "{ran:?}");
    assert!(errors.iter().any(|line| line["path"] == text(&gone)), "{errors:?}");
    for flags in [&["--shard", "4/3"][..], &["--shard", "1/2"]] {
        let ran = check(&[flags, &["/bin/sh"]].concat());
        assert_eq!(ran.code, Some(2), "{ran:?}");
    }
}
