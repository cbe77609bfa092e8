//! Files that `becalm fix` may change: those below the named paths, unless `--closure` is given. It
//! changes nothing that would make a start longer. `becalm undo` of the same path restores the
//! changes of one command.

mod support;

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;
use support::chain::{Store, strategies};
use support::{Ran, cc, no_compiler};

/// The strategies, each planned for the named files.
fn names() -> Vec<Vec<&'static str>> {
    strategies().map(|(_, arguments)| arguments).filter(|it| it.len() == 1).collect()
}

fn fix<'a>(strategy: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [&["fix", "--with"], strategy, more].concat()
}

/// The paths that differ between two states of a store.
fn changed(
    before: &BTreeMap<PathBuf, Vec<u8>>,
    after: &BTreeMap<PathBuf, Vec<u8>>,
) -> Vec<PathBuf> {
    let differs = |path: &&PathBuf| before.get(*path) != after.get(*path);
    before.keys().chain(after.keys()).filter(differs).cloned().collect()
}

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("no JSON: {ran:?}"))
}

/// The failing calls of the only program in a report, before and after.
fn misses(report: &Value) -> [u64; 2] {
    ["before", "after"].map(|when| {
        let storm = &report["programs"][0][when];
        let count = |what: &str| storm[what].as_u64().expect("a count");
        count("missed_opens") + count("missed_stats")
    })
}

fn link_twice(store: &Store, file: &Path) -> PathBuf {
    let other = store.dir.path().join("another-name");
    fs::hard_link(file, &other).expect("linked");
    other
}

#[test]
fn a_package_is_changed_and_its_dependencies_are_not() {
    if no_compiler() {
        return;
    }
    let store = Store::new();
    let before = store.content();
    let (package, app) = (store.root().join("ccc-app"), store.app());
    for (strategy, target) in names().iter().flat_map(|s| [(s, &package), (s, &app)]) {
        let ran = store.on(&fix(strategy, &[]), target);
        assert_eq!(ran.code, Some(0), "{strategy:?}: {}", ran.stderr);
        let all = changed(&before, &store.content());
        assert!(!all.is_empty(), "{strategy:?}");
        let outside: Vec<&PathBuf> = all.iter().filter(|p| !p.starts_with(&package)).collect();
        assert!(outside.is_empty(), "{strategy:?}: {outside:?}");
        assert_eq!(store.on(&["undo"], target).code, Some(0));
        let left = changed(&before, &store.content());
        assert_eq!(left, Vec::<PathBuf>::new(), "{strategy:?} {}", target.display());
    }
}

#[test]
fn a_part_of_a_package_is_changed_alone() {
    if no_compiler() {
        return;
    }
    let store = Store::new();
    let before = store.content();
    let part = store.root().join("ccc-app/bin");
    for strategy in names() {
        let ran = store.on(&fix(&strategy, &[]), &part);
        // A loader looks for a cache at the root of the package alone.
        let code = if strategy == ["ldcache"] { 1 } else { 0 };
        assert_eq!(ran.code, Some(code), "{strategy:?}: {}", ran.stderr);
        let all = changed(&before, &store.content());
        assert_eq!(all.is_empty(), code == 1, "{strategy:?}");
        let outside: Vec<&PathBuf> = all.iter().filter(|p| !p.starts_with(&part)).collect();
        assert!(outside.is_empty(), "{strategy:?}: {outside:?}");
        assert_eq!(store.prints(), "1 2\n");
        let again = store.on(&fix(&strategy, &[]), &part);
        assert_eq!(again.code, Some(code), "{strategy:?}: {}", again.stderr);
        assert_eq!(store.on(&["undo"], &part).code, Some(0));
        assert_eq!(changed(&before, &store.content()), Vec::<PathBuf>::new(), "{strategy:?}");
    }
}

#[test]
fn a_cache_for_one_program_does_not_answer_another_of_its_package() {
    if no_compiler() {
        return;
    }
    let store = Store::new();
    // Another libone.so, which only the second program of the package finds.
    let other = store.root().join("eee-one/lib");
    fs::create_dir_all(&other).expect("made");
    fs::copy(store.one(), other.join("libone.so")).expect("copied");
    fs::write(store.root().join("b.c"), "int main(void) { return 0; }\n").expect("written");
    let path = format!("-Wl,--enable-new-dtags,-rpath,{}", other.display());
    let second = ["b.c", "-o", "ccc-app/bin/second", "-Wl,--no-as-needed", &path];
    cc(&store.root(), &[&second[..], &["eee-one/lib/libone.so"]].concat());
    let ran = store.on(&fix(&["ldcache"], &["--json"]), &store.app());
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let report = json(&ran);
    let findings = report["findings"].as_array().expect("findings");
    let conflict = findings.iter().find(|finding| finding["severity"] == "conflict");
    assert_eq!(conflict.expect("a conflict")["needed"], "libone.so", "{report}");
    let answers = report["plan"][0]["answers"].as_array().expect("answers");
    let one = answers.iter().find(|answer| answer["needed"] == "libone.so").expect("is needed");
    assert!(one["exact"].is_null(), "{report}");
}

#[test]
fn a_cache_that_answers_for_another_program_stays_when_one_is_restored() {
    if no_compiler() {
        return;
    }
    let store = Store::new();
    let package = store.root().join("ccc-app");
    fs::copy(store.app(), package.join("bin/second")).expect("copied");
    let before = store.content();
    let cache = package.join("etc/ld.so.cache");
    assert_eq!(store.on(&fix(&["ldcache"], &[]), &package).code, Some(0));
    for target in [store.app(), package.join("bin/second")] {
        let ran = store.on(&["undo"], &target);
        let line = format!("kept  {}: answers for 1 other object", cache.display());
        assert_eq!((ran.code, ran.stdout.contains(&line)), (Some(0), true), "{ran:?}");
        assert!(cache.exists());
    }
    let kept = json(&store.on(&["undo", "--json"], &store.app()));
    assert_eq!(kept["kept"][0]["others"], 1, "{kept}");
    assert_eq!(store.on(&["undo"], &package.join("bin")).code, Some(0));
    assert_eq!(changed(&before, &store.content()), Vec::<PathBuf>::new());
}

#[test]
fn the_closure_is_changed_when_asked_for_and_the_same_path_restores_it() {
    if no_compiler() {
        return;
    }
    let store = Store::new();
    let before = store.content();
    let package = store.root().join("ccc-app");
    for target in [package, store.app()] {
        let ran = store.on(&fix(&["farm", "--closure"], &[]), &target);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let all = changed(&before, &store.content());
        for library in [store.one(), store.two()] {
            assert!(all.contains(&library), "{all:?}");
            let line = format!("outside the named paths  {}", library.display());
            assert!(ran.stdout.contains(&line), "{}", ran.stdout);
        }
        assert_eq!(store.prints(), "1 2\n");
        let ran = store.becalm(&["verify", "--load"]);
        assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
        let ran = store.on(&["undo"], &target);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert_eq!(changed(&before, &store.content()), Vec::<PathBuf>::new());
    }
}

#[test]
fn a_library_restored_alone_leaves_the_farm_to_the_others() {
    if no_compiler() {
        return;
    }
    let store = Store::new();
    let before = store.content();
    store.on(&fix(&["farm", "--closure"], &[]), &store.app());
    let ran = store.on(&["undo"], &store.one());
    assert_eq!((ran.code, ran.stdout.contains("1 file restored")), (Some(0), true), "{ran:?}");
    assert!(store.root().join("ccc-app/lib/becalm-farm").exists(), "the program names it");
    assert_eq!(store.on(&["undo"], &store.app()).code, Some(0));
    assert_eq!(changed(&before, &store.content()), Vec::<PathBuf>::new());
}

#[test]
fn a_farm_that_a_library_still_names_is_kept() {
    if no_compiler() {
        return;
    }
    let store = Store::new();
    let before = store.content();
    store.on(&fix(&["farm", "--closure"], &[]), &store.app());
    let other = link_twice(&store, &store.two());
    let ran = store.on(&["undo"], &store.app());
    assert_eq!(ran.code, Some(2), "a file with two names is refused: {ran:?}");
    let farm = store.root().join("ccc-app/lib/becalm-farm/bin/app");
    assert!(farm.is_dir(), "libtwo.so names it");
    fs::remove_file(other).expect("removed");
    let ran = store.on(&["undo"], &store.app());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(changed(&before, &store.content()), Vec::<PathBuf>::new());
}

#[test]
fn programs_that_share_libraries_have_no_farm_of_their_closures() {
    if no_compiler() {
        return;
    }
    let store = Store::new();
    let second = store.root().join("eee-app/bin");
    fs::create_dir_all(&second).expect("made");
    fs::copy(store.app(), second.join("app")).expect("copied");
    let before = store.content();
    let ran = store.becalm(&fix(&["farm", "--closure"], &[]));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("--leaf"), "{}", ran.stderr);
    assert_eq!(changed(&before, &store.content()), Vec::<PathBuf>::new());

    let ran = store.becalm(&fix(&["farm"], &[]));
    assert_eq!(ran.code, Some(0), "each object has its own: {}", ran.stderr);
    assert_eq!(store.becalm(&["undo"]).code, Some(0));
    assert_eq!(changed(&before, &store.content()), Vec::<PathBuf>::new());
}

#[test]
fn a_plan_that_makes_a_start_longer_is_named_and_not_carried_out() {
    if no_compiler() {
        return;
    }
    let store = Store::with(0);
    let before = store.content();
    for target in [store.app(), store.root()] {
        let ran = store.on(&fix(&["farm"], &["--json"]), &target);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        let report = json(&ran);
        let findings = report["findings"].as_array().expect("findings");
        let mut what = findings.iter().filter_map(|finding| finding["what"].as_str());
        assert!(what.any(|what| what.contains("failing calls")), "{findings:?}");
        let [old, new] = misses(&report);
        assert_eq!((new, store.misses()), (old, old));
        let all = changed(&before, &store.content());
        assert!(!all.iter().any(|path| path.starts_with(store.root().join("ccc-app"))), "{all:?}");
    }
    // A refused file is a failure.
    let ran = store.on(&fix(&["farm"], &[]), &store.app());
    assert!(ran.stdout.contains("0 made, 0 up to date, 1 refused; "), "{ran:?}");
    let ran = store.on(&fix(&["farm"], &["--json"]), &store.app());
    let plan = &json(&ran)["plan"][0];
    assert_eq!((&plan["edits"], &plan["withdrawn"]), (&0.into(), &true.into()), "{plan}");
    let ran = store.on(&fix(&["farm"], &["--allow-more-misses"]), &store.app());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_ne!(store.content(), before);
}

#[test]
fn no_figure_of_another_loader_is_printed_for_the_cache_of_a_closure() {
    if no_compiler() {
        return;
    }
    let store = Store::new();
    let plain = store.on(&fix(&["ldcache"], &["--dry-run"]), &store.app());
    assert!(plain.stdout.contains("misses with a loader that reads package caches"), "{plain:?}");
    let whole = store.on(&fix(&["ldcache", "--closure"], &["--dry-run"]), &store.app());
    let storm = whole.stdout.lines().find(|line| line.starts_with("storm")).expect("a line");
    let before = format!("{} misses", store.misses());
    assert!(storm.replace(',', "").contains(&before), "{storm}");
    let after = "misses -> not predicted for Guix's loader, which --closure is for";
    assert!(storm.ends_with(after), "{storm}");
}

#[test]
fn an_object_without_a_run_path_is_said_to_have_none_and_each_finding_is_said_once() {
    if no_compiler() {
        return;
    }
    let store = Store::new();
    let bare = store.root().join("ccc-app/bin/bare");
    fs::write(store.root().join("bare.c"), "int main(void) { return 0; }\n").expect("written");
    cc(&store.root(), &["bare.c", "-o", "ccc-app/bin/bare"]);
    for more in [&[][..], &["--closure"]] {
        let ran = store.on(&fix(&["farm"], more), &bare);
        assert!(ran.stdout.contains("no run path: its search has nothing to skip"), "{ran:?}");
    }
    let ran = store.on(&fix(&["farm", "--closure"], &["--dry-run"]), &store.app());
    let is_finding = |line: &&str| line.starts_with("left") || line.starts_with("passed over");
    let mut lines: Vec<&str> = ran.stdout.lines().filter(is_finding).collect();
    assert!(!lines.is_empty(), "{ran:?}");
    let all = lines.len();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), all, "{ran:?}");
}

#[test]
fn nothing_is_left_of_what_was_made_for_a_file_that_cannot_be_changed() {
    if no_compiler() {
        return;
    }
    let store = Store::new();
    let mut app = OpenOptions::new().append(true).open(store.app()).expect("opened");
    app.write_all(b"more than the ELF image").expect("written");
    drop(app);
    let before = store.content();
    for strategy in [&["farm"][..], &["farm", "--closure"], &["audit"]] {
        let ran = store.on(&fix(strategy, &["--json"]), &store.app());
        assert_eq!(ran.code, Some(2), "{strategy:?}: {ran:?}");
        let [old, new] = misses(&json(&ran));
        assert!(strategy.contains(&"--closure") || old == new, "{strategy:?}: {old} -> {new}");
        assert_eq!(store.prints(), "1 2\n", "{strategy:?}");
        // With --closure, the libraries could be changed.
        assert_eq!(store.on(&["undo"], &store.app()).code, Some(0));
        assert_eq!(changed(&before, &store.content()), Vec::<PathBuf>::new(), "{strategy:?}");
    }
}

#[test]
fn a_dry_run_and_advice_name_a_file_that_cannot_be_changed() {
    if no_compiler() {
        return;
    }
    let store = Store::new();
    let mut app = OpenOptions::new().append(true).open(store.app()).expect("opened");
    app.write_all(b"a file system, as in an AppImage").expect("written");
    drop(app);
    for strategy in [&["absolute"][..], &["farm"], &["audit"]] {
        let ran = store.on(&fix(strategy, &["--dry-run", "--json"]), &store.app());
        assert_eq!(ran.code, Some(2), "{strategy:?}: {ran:?}");
        let [old, new] = misses(&json(&ran));
        assert_eq!(old, new, "{strategy:?}");
        assert!(ran.stderr.contains("something is appended to the ELF file"), "{ran:?}");
    }
    let advice = json(&store.on(&["advise", "--json"], &store.app()));
    let options = advice["options"].as_array().expect("options");
    let audit = options.iter().find(|option| option["strategy"] == "audit").expect("an option");
    assert!(audit["misses"].is_null(), "{advice}");
    let reason = audit["refused"].as_str().unwrap_or_default();
    assert!(reason.contains("something is appended"), "{advice}");
}

#[test]
fn undo_finds_an_index_that_no_program_names() {
    if no_compiler() {
        return;
    }
    let store = Store::new();
    let before = store.content();
    for target in [store.app(), store.root()] {
        let ran = store.on(&fix(&["audit"], &[]), &store.app());
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        // As if the run had been killed between the two.
        fs::write(store.app(), &before[&store.app()]).expect("written");
        assert_eq!(store.on(&["undo"], &target).code, Some(0));
        assert_eq!(changed(&before, &store.content()), Vec::<PathBuf>::new());
    }
}

#[test]
fn the_summary_tells_what_was_done() {
    if no_compiler() {
        return;
    }
    let store = Store::new();
    let other = link_twice(&store, &store.app());
    for strategy in ["absolute", "farm"] {
        let ran = store.on(&fix(&[strategy], &["--json"]), &store.app());
        assert_eq!(ran.code, Some(2), "{ran:?}");
        let [old, new] = misses(&json(&ran));
        assert_eq!(old, new, "{strategy}: the program is as it was");
    }
    fs::remove_file(other).expect("removed");
    let ran = store.on(&fix(&["absolute"], &["--json"]), &store.app());
    let [old, new] = misses(&json(&ran));
    assert!(new < old, "{old} -> {new}");
    assert_eq!(new, store.misses());
}

#[test]
fn a_store_named_through_a_link_is_the_same_store() {
    if no_compiler() {
        return;
    }
    let store = Store::new();
    let link = store.dir.path().join("link");
    std::os::unix::fs::symlink(store.root(), &link).expect("linked");
    for strategy in names() {
        let mut command = support::becalm();
        command.args(fix(&strategy, &["--dry-run", "--json"])).arg("--store").arg(&link);
        let ran = support::run(command.arg(store.app()));
        let report = json(&ran);
        let planned = report["plan"].as_array().expect("a plan").iter();
        let edits = planned.filter(|file| file["edits"] != 0).count();
        let made = report["creations"].as_array().expect("creations").len();
        assert!(edits + made > 0, "{strategy:?}: {report}");
        let [old, new] = misses(&report);
        assert!(new < old, "{strategy:?}: {old} -> {new}");
    }
}

#[test]
fn a_program_of_a_folder_that_can_have_no_audit_entry_is_named_with_the_reason() {
    if no_compiler() {
        return;
    }
    let store = Store::new();
    let package = store.root().join("ddd-big");
    let (lib, bin) = (package.join("lib"), package.join("bin"));
    fs::create_dir_all(&lib).expect("made");
    fs::create_dir_all(&bin).expect("made");
    // More static TLS than is left under an audit module.
    let source = store.dir.path().join("big.c");
    let text = "static __thread char big[4096] __attribute__((tls_model(\"initial-exec\")));\n\
                char *one(void) { return big; }\n";
    fs::write(&source, text).expect("written");
    let main = store.dir.path().join("big-main.c");
    fs::write(&main, "char *one(void); int main(void) { return !one(); }\n").expect("written");
    let library = lib.join("libbig.so");
    let program = bin.join("big");
    let [source, main, library, program] =
        [&source, &main, &library, &program].map(|path| path.to_str().expect("UTF-8"));
    cc(store.dir.path(), &["-shared", "-fPIC", source, "-o", library]);
    let run_path = format!("-Wl,-rpath,{}", lib.display());
    cc(store.dir.path(), &[main, "-o", program, library, &run_path]);
    let before = store.content();
    let ran = store.on(&fix(&["audit"], &[]), &package);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let line = ran.stdout.lines().find(|line| line.starts_with("passed over")).unwrap_or_default();
    assert!(
        line.contains("bin/big: no DT_AUDIT entry: ") && line.contains("static TLS"),
        "{ran:?}"
    );
    assert_eq!(changed(&before, &store.content()), Vec::<PathBuf>::new());
    // Named by itself, it is an error.
    let named = store.on(&fix(&["audit"], &[]), Path::new(program));
    assert_eq!(named.code, Some(2), "{named:?}");
}
