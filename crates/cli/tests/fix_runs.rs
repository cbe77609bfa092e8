//! `becalm fix`, `undo` and `verify` on a small store that is built here: programs run the same,
//! searches are gone, and undo gives back every byte.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use becalm_core::strategy::Strategy;
use serde_json::Value;
use support::chain::{Store, strategies};
use support::{becalm, cc, no_compiler, run, twenty};

fn fix<'a>(strategy: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [&["fix", "--with"], strategy, more].concat()
}

/// The strategies whose answers a report of `becalm verify` has; an index beside a program is one
/// of `audit`.
fn verified(report: &str) -> BTreeSet<String> {
    let json: Value = serde_json::from_str(report).expect("JSON");
    let objects = json["objects"].as_array().expect("a list").iter();
    let answers = objects.flat_map(|object| object["answers"].as_array().expect("a list"));
    let names = answers.map(|answer| answer["carrier"].as_str().expect("a name").to_owned());
    let indexes = json["indexes"].as_array().expect("a list").iter();
    names.chain(indexes.map(|_| Strategy::Audit.to_string())).collect()
}

#[test]
fn advice_has_every_strategy() {
    if no_compiler() {
        return;
    }
    let store = Store::new();
    let ran = store.on(&["advise", "--json"], &store.app());
    let json: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let options = json["options"].as_array().expect("a list").iter();
    let known: Vec<&str> = options.map(|it| it["strategy"].as_str().expect("a name")).collect();
    for strategy in Strategy::ALL {
        assert!(known.contains(&strategy.to_string().as_str()), "{strategy}: {known:?}");
    }
}

#[test]
fn every_strategy_leaves_the_program_as_it_was_and_undo_gives_back_every_byte() {
    if no_compiler() {
        return;
    }
    let store = Store::new();
    let before = store.content();
    let (prints, misses) = (store.prints(), store.misses());
    assert_eq!(prints, "1 2\n");
    assert!(misses > 0);
    for (with, strategy) in strategies() {
        let is_calm_here = with.row().format.is_none();
        let target = if strategy.contains(&"--closure") { store.app() } else { store.root() };
        let ran = store.on(&fix(&strategy, &[]), &target);
        assert_eq!(ran.code, Some(0), "{strategy:?}: {}", ran.stderr);
        assert_ne!(store.content(), before, "{strategy:?}");
        assert_eq!(store.prints(), prints, "{strategy:?}");
        assert!(!is_calm_here || store.misses() < misses, "{strategy:?}: {}", store.misses());
        let ran = store.becalm(&["verify", "--load", "--json"]);
        assert_eq!(ran.code, Some(0), "{strategy:?}: {}{}", ran.stdout, ran.stderr);
        assert!(verified(&ran.stdout).contains(&with.to_string()), "{strategy:?}: {}", ran.stdout);

        let ran = store.becalm(&["undo"]);
        assert_eq!(ran.code, Some(0), "{strategy:?}: {}", ran.stderr);
        assert_eq!(store.content(), before, "{strategy:?}");
    }
}

#[test]
fn fix_and_undo_beside_each_other_miss_no_directory_that_the_other_removed() {
    if no_compiler() {
        return;
    }
    let store = Store::new();
    let before = store.content();
    let root = store.root();
    let root = root.to_str().expect("UTF-8");
    for _ in 0..3 {
        let command = |number| {
            let mut command = becalm();
            match number % 2 {
                0 => command.args(fix(&["farm"], &["--store", root, root])),
                _ => command.args(["undo", root]),
            };
            command
        };
        for output in twenty(command) {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(!said.contains("No such file"), "{:?} {said}", output.status);
        }
    }
    assert_eq!(store.becalm(&["undo"]).code, Some(0));
    assert_eq!(store.content(), before);
}

#[test]
fn a_directory_that_a_killed_run_left_is_known_by_its_mark() {
    if no_compiler() {
        return;
    }
    let store = Store::new();
    let before = store.content();
    let [marked, theirs] = ["ccc-app/etc", "ddd-none/etc"].map(|dir| store.root().join(dir));
    let make = |dir: &Path, mode| {
        fs::create_dir(dir).expect("made");
        fs::set_permissions(dir, fs::Permissions::from_mode(mode)).expect("ours");
    };
    make(&marked, 0o1700);
    make(&theirs, 0o755);
    let ran = store.becalm(&["undo"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(!marked.exists() && theirs.exists());
    fs::remove_dir(&theirs).expect("empty");

    make(&marked, 0o1700);
    let ran = store.becalm(&fix(&["ldcache"], &[]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(marked.join("ld.so.cache").exists());
    let mode = fs::metadata(&marked).expect("is there").permissions().mode();
    assert_eq!(mode & 0o7777, 0o755, "others can read what is in it");
    assert_eq!(store.becalm(&["undo"]).code, Some(0));
    assert_eq!(store.content(), before);
}

#[test]
fn a_second_fix_has_nothing_to_do() {
    if no_compiler() {
        return;
    }
    let store = Store::new();
    for (_, strategy) in strategies() {
        let target = if strategy.contains(&"--closure") { store.app() } else { store.root() };
        store.on(&fix(&strategy, &[]), &target);
        let once = store.content();
        let ran = store.on(&fix(&strategy, &["--json"]), &target);
        let json: Value = serde_json::from_str(&ran.stdout).expect("JSON");
        let all = json["files"].as_array().unwrap().iter().chain(json["made"].as_array().unwrap());
        let written = all.filter(|done| done["status"] == "written").count();
        assert_eq!((ran.code, written), (Some(0), 0), "{strategy:?}: {}", ran.stdout);
        assert_eq!(store.content(), once, "{strategy:?}");
        store.becalm(&["undo"]);
    }
}

#[test]
fn of_twenty_at_once_one_changes_a_file_and_the_others_have_nothing_to_do() {
    if no_compiler() {
        return;
    }
    let store = Store::new();
    let (before, prints) = (store.content(), store.prints());
    for strategy in [&["absolute"][..], &["absolute", "--in-place"], &["farm"], &["ldcache"]] {
        for target in [store.app(), store.root()] {
            let root = store.root();
            let line = fix(strategy, &["--json", "--store", root.to_str().expect("UTF-8")]);
            let command = |_| {
                let mut command = becalm();
                command.args(&line).arg(&target);
                command
            };
            let mut writers = 0;
            for ran in twenty(command) {
                let said = String::from_utf8_lossy(&ran.stderr);
                let printed = String::from_utf8_lossy(&ran.stdout);
                let context = format!("{strategy:?} {target:?} {printed}");
                assert_eq!((ran.status.code(), &*said), (Some(0), ""), "{context}");
                let json: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
                let all =
                    ["files", "made"].iter().flat_map(|of| json[of].as_array().expect("a list"));
                writers += usize::from({ all }.any(|done| done["status"] == "written"));
            }
            assert!(writers >= 1, "{strategy:?} {target:?}");
            assert!(writers == 1 || strategy[0] != "absolute" || target != store.app());
            assert_eq!(store.prints(), prints, "{strategy:?}");
            let once = store.content();
            assert_eq!(store.on(&fix(strategy, &[]), &target).code, Some(0), "{strategy:?}");
            assert_eq!(store.content(), once, "{strategy:?} {target:?}");
            assert_eq!(store.becalm(&["undo"]).code, Some(0), "{strategy:?}");
            assert_eq!(store.content(), before, "{strategy:?} {target:?}");
        }
    }
}

#[test]
fn in_place_keeps_the_inode_and_every_name_of_the_file() {
    if no_compiler() {
        return;
    }
    let store = Store::new();
    let other = store.root().join("ddd-none/lib/other-name");
    fs::hard_link(store.two(), &other).expect("linked");
    let before = store.content();
    for more in [&[][..], &["--dry-run"]] {
        let refused = store.on(&fix(&["note"], more), &store.two());
        assert_eq!(refused.code, Some(2), "{more:?}");
        assert!(refused.stderr.contains("2 hard links"), "{}", refused.stderr);
        assert_eq!(store.content(), before);
    }

    fs::set_permissions(store.two(), fs::Permissions::from_mode(0o4755)).unwrap();
    let of_mode = store.on(&fix(&["note"], &["--dry-run", "--hardlinks", "break"]), &store.two());
    assert_eq!(of_mode.code, Some(2), "{of_mode:?}");
    assert!(of_mode.stderr.contains("needs --setuid"), "{}", of_mode.stderr);
    fs::set_permissions(store.two(), fs::Permissions::from_mode(0o755)).unwrap();

    let ran = store.on(&fix(&["note"], &["--in-place", "--hardlinks", "keep"]), &store.two());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(fs::read(&other).unwrap(), fs::read(store.two()).unwrap());
    assert_ne!(store.content(), before);
    let ran = store.on(&["undo", "--in-place", "--hardlinks", "keep"], &store.two());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(store.content(), before);
}

#[test]
fn a_dry_run_shows_the_plan_and_writes_nothing() {
    if no_compiler() {
        return;
    }
    let store = Store::new();
    let before = store.content();
    for (_, strategy) in strategies() {
        let ran = store.on(&fix(&strategy, &["--dry-run"]), &store.app());
        assert_eq!(ran.code, Some(0), "{strategy:?}: {}", ran.stderr);
        assert!(ran.stdout.contains("would be changed"), "{strategy:?}: {}", ran.stdout);
        assert!(ran.stdout.contains("storm"), "{strategy:?}: {}", ran.stdout);
        assert_eq!(store.content(), before, "{strategy:?}");
    }
}

#[test]
fn verify_finds_an_answer_that_is_gone() {
    if no_compiler() {
        return;
    }
    let store = Store::new();
    for strategy in [&["note"][..], &["absolute"], &["farm", "--leaf"], &["ldcache"]] {
        store.becalm(&fix(strategy, &[]));
        let (one, elsewhere) = (store.one(), store.root().join("bbb-two/lib/libone.so"));
        fs::rename(&one, &elsewhere).expect("moved");
        let ran = store.becalm(&["verify", "--json"]);
        assert_eq!(ran.code, Some(1), "{strategy:?}: {}", ran.stdout);
        let json: Value = serde_json::from_str(&ran.stdout).expect("JSON");
        let objects = json["objects"].as_array().unwrap().iter();
        let answers = objects.flat_map(|object| object["answers"].as_array().unwrap());
        // A link that leads nowhere is no answer of the farm's.
        let is_stale = |answer: &&Value| {
            (answer["verdict"] == "stale" || answer["verdict"] == "missing")
                && answer["needed"].as_str().is_some_and(|needed| needed.ends_with("libone.so"))
        };
        assert!(answers.clone().any(|answer| is_stale(&answer)), "{strategy:?}: {}", ran.stdout);
        fs::rename(&elsewhere, &one).expect("moved back");
        store.becalm(&["undo"]);
    }
}

#[test]
fn what_something_else_changed_since_is_not_undone() {
    if no_compiler() {
        return;
    }
    let store = Store::new();
    store.on(&fix(&["note"], &[]), &store.app());
    let mut bytes = fs::read(store.app()).unwrap();
    // A byte of the ELF header that undo would put back.
    let interpreter = bytes.windows(4).position(|window| window == b"/lib").expect("a path");
    bytes[interpreter] = b'#';
    fs::write(store.app(), &bytes).unwrap();
    let ran = store.on(&["undo"], &store.app());
    assert_eq!(ran.code, Some(2), "{}{}", ran.stdout, ran.stderr);
    assert_eq!(fs::read(store.app()).unwrap(), bytes);
}

#[test]
fn a_bad_file_is_named_and_the_others_are_done() {
    if no_compiler() {
        return;
    }
    let store = Store::new();
    let text = store.root().join("ccc-app/bin/text");
    fs::write(&text, "no ELF\n").unwrap();
    let torn = store.root().join("ccc-app/bin/torn");
    fs::write(&torn, &fs::read(store.app()).unwrap()[..2000]).unwrap();
    let mut command = becalm();
    command.args(["fix", "--with", "note", "--store"]).arg(store.root());
    let gone = store.root().join("ccc-app/bin/gone");
    let ran = run(command.args([&text, &torn, &gone]).arg(store.app()));
    assert_eq!(ran.code, Some(2));
    for (path, why) in [("bin/text", "neither"), ("bin/torn", ""), ("bin/gone", "No such file")] {
        let named = ran.stderr.lines().any(|line| line.contains(path) && line.contains(why));
        assert!(named, "{path}: {}", ran.stderr);
    }
    assert!(ran.stdout.starts_with("1 file changed"), "{}", ran.stdout);
    assert_eq!(fs::read(&text).unwrap(), b"no ELF\n");
}

#[test]
fn a_file_named_twice_is_changed_once() {
    if no_compiler() {
        return;
    }
    let store = Store::new();
    let link = store.root().join("ccc-app/bin/link");
    symlink("app", &link).unwrap();
    let mut command = becalm();
    command.args(["fix", "--with", "note", "--store"]).arg(store.root());
    let ran = run(command.arg(store.app()).arg(&link).arg(store.app()));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.starts_with("1 file changed"), "{}", ran.stdout);
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert_eq!(store.prints(), "1 2\n");
}

#[test]
fn mode_and_asked_for_times_stay() {
    if no_compiler() {
        return;
    }
    let store = Store::new();
    fs::set_permissions(store.app(), fs::Permissions::from_mode(0o511)).unwrap();
    let about = fs::metadata(store.app()).unwrap();
    let ran = store.on(&fix(&["note"], &["--keep-times"]), &store.app());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let now = fs::metadata(store.app()).unwrap();
    assert_ne!(now.len(), about.len());
    assert_eq!(now.permissions().mode(), about.permissions().mode());
    assert_eq!(now.modified().unwrap(), about.modified().unwrap());
}

#[test]
fn an_unknown_strategy_is_refused_with_the_known_ones() {
    let ran = run(becalm().args(["fix", "--with", "magic", "/bin/true"]));
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("ldcache"), "{}", ran.stderr);
}

#[test]
fn a_static_program_is_passed_over_with_a_word() {
    if no_compiler() {
        return;
    }
    let store = Store::new();
    let source = store.root().join("s.c");
    fs::write(&source, "void _start(void) { for (;;) ; }\n").unwrap();
    cc(&store.root(), &["-static", "-nostdlib", "s.c", "-o", "static"]);
    let before = store.content();
    let ran = store.on(&fix(&["note"], &[]), &store.root().join("static"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("static program"), "{}", ran.stdout);
    assert_eq!(store.content(), before);
}

#[test]
fn a_library_of_a_machine_without_a_loader_here_gets_its_note() {
    if no_compiler() {
        return;
    }
    /// `e_machine`, and the machine of Alpha there (gABI, chapter 4).
    const MACHINE: (usize, [u8; 2]) = (18, [0x26, 0x90]);
    let store = Store::new();
    for library in [store.one(), store.two()] {
        let mut bytes = fs::read(&library).unwrap();
        bytes[MACHINE.0..MACHINE.0 + 2].copy_from_slice(&MACHINE.1);
        fs::write(&library, bytes).unwrap();
    }
    let ran = store.on(&fix(&["note"], &["--libc", "glibc-2.36"]), &store.two());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let written = fs::read(store.two()).unwrap();
    let answer = [b"=".as_slice(), store.one().to_str().unwrap().as_bytes()].concat();
    assert!(written.windows(answer.len()).any(|part| part == answer), "{}", ran.stdout);
}
