//! `becalm on`: its starter starts programs by the index, and plainly whenever anything is unexpected.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use becalm_host::pages::resident::Residency;
use serde_json::{Value, json};
use support::cold::{
    evict, is_evicted, kept, large_program, line, lines, pages_in_memory, residency,
};
use support::store::{self, Store, nothing_to_test_with, text};
use support::{Ran, becalm, cc, finish, run, twenty, wait_for};

struct Scene {
    store: Store,
}

impl Scene {
    fn new() -> Self {
        let store = Store::new();
        fs::create_dir_all(store.path("home")).expect("made");
        Self { store }
    }

    fn state(&self, name: &str) -> PathBuf {
        self.store.path("home/.local/state/becalm/on").join(name)
    }

    /// Returns `PATH` with the folder, the store's program, and the system's.
    fn path(&self) -> String {
        let app = self.store.app();
        let dirs = [&self.state("bin"), app.parent().expect("a folder")];
        format!("{}:/usr/bin:/bin", dirs.map(|dir| text(dir).to_owned()).join(":"))
    }

    fn becalm(&self, arguments: &[&str]) -> Command {
        let mut command = self.store.becalm(arguments);
        for variable in ["XDG_STATE_HOME", "XDG_CONFIG_HOME", "ZDOTDIR"] {
            command.env_remove(variable);
        }
        command.env("PATH", self.path()).env("SHELL", "/bin/sh");
        command
    }

    fn on(&self) {
        self.report(&["on", "app"]);
    }

    /// Returns the report of a command that succeeds.
    fn report(&self, arguments: &[&str]) -> Value {
        let ran = run(&mut self.becalm(&[arguments, &["--json"]].concat()));
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
        store::json(&ran)
    }

    fn assert_listed(&self, is_fresh: bool, what: &str) {
        let list = self.report(&["on", "--list"]);
        assert_eq!(list["programs"][0]["name"], "app", "{what}");
        assert_eq!(list["programs"][0]["fresh"], is_fresh, "{what}: {list}");
    }

    /// Starts the app by its name. Returns what it did, and true if the index answered.
    fn start(&self, name: &str, set: &[(&str, &str)]) -> (Ran, bool) {
        let log = self.store.path("log");
        let _ = fs::remove_file(&log);
        let mut command = Command::new(self.state("bin").join(name));
        command.env_clear().env("PATH", self.path());
        command.env("BECALM", format!("log:{}", text(&log))).envs(set.iter().copied());
        let ran = run(&mut command);
        let said = fs::read_to_string(&log).unwrap_or_default();
        (ran, said.contains("\tsearch\t"))
    }

    fn assert_started(&self, by_index: bool, set: &[(&str, &str)], what: &str) {
        let (ran, is_answered) = self.start("app", set);
        assert_eq!(
            (ran.code, ran.stdout.as_str(), ran.stderr.as_str()),
            (Some(0), "one two\n", ""),
            "{what}"
        );
        assert_eq!(is_answered, by_index, "{what}");
    }
}

#[test]
fn a_program_that_is_on_starts_by_the_index_and_plainly_if_anything_is_unexpected() {
    if nothing_to_test_with() {
        return;
    }
    let scene = Scene::new();
    scene.on();
    scene.assert_started(true, &[], "as it was switched on");
    scene.assert_started(
        false,
        &[("LD_PRELOAD", text(&scene.store.one("libone.so")))],
        "a preload",
    );
    scene.assert_started(false, &[("BECALM", "off")], "switched off");
    let table = scene.state("starts");
    let whole = fs::read(&table).expect("read");
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x41;
        fs::write(&table, bytes).expect("written");
        scene.assert_started(false, &[], "a byte of the list");
        if at % 7 == 0 {
            fs::write(&table, &whole[..at]).expect("written");
            scene.assert_started(false, &[], "a shorter list");
        }
    }
    fs::write(&table, &whole).expect("written");
    scene.assert_started(true, &[], "the list again");
    fs::set_permissions(&table, fs::Permissions::from_mode(0o666)).expect("set");
    scene.assert_started(false, &[], "a list that others may write");
    fs::set_permissions(&table, fs::Permissions::from_mode(0o644)).expect("set");
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&table, Some(12345), None).expect("given");
        scene.assert_started(false, &[], "a list of another user");
        std::os::unix::fs::chown(&table, Some(0), None).expect("given");
    }
    let index = scene.state("index.so");
    fs::rename(&index, scene.state("other.so")).expect("renamed");
    scene.assert_started(false, &[], "without its index");
    fs::rename(scene.state("other.so"), &index).expect("renamed");
    scene.assert_started(true, &[], "with its index");
    // Another program is found before it.
    let other = scene.store.path("before");
    fs::create_dir(&other).expect("made");
    fs::write(other.join("app"), "echo other\n").expect("written");
    fs::set_permissions(other.join("app"), fs::Permissions::from_mode(0o755)).expect("set");
    let path = format!("{}:{}:{}", text(&scene.state("bin")), text(&other), scene.path());
    assert_eq!(scene.start("app", &[("PATH", &path)]).0.stdout, "other\n");
    // The folder again, under other names, is passed.
    symlink(scene.state("bin"), scene.store.path("alias")).expect("linked");
    let path = format!("{}:{}", text(&scene.store.path("alias")), scene.path());
    scene.assert_started(true, &[("PATH", &path)], "a folder under two names");
    fs::remove_file(scene.store.app()).expect("removed");
    let (ran, _) = scene.start("app", &[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(127), ""), "{ran:?}");
    assert!(ran.stderr.contains("command not found"), "{ran:?}");
}

#[test]
fn a_program_that_looks_for_itself_by_its_name_finds_itself() {
    if nothing_to_test_with() {
        return;
    }
    let scene = Scene::new();
    let source = "#include <stdio.h>\nint main(int c, char **v) { (void) c; puts(v[0]); }\n";
    scene.store.source("named.c", source);
    let named = scene.store.app().with_file_name("named");
    cc(scene.store.dir.path(), &["named.c", "-o", text(&named)]);
    scene.report(&["on", "named"]);
    let started_as = |name: &str| {
        let mut command = Command::new(scene.state("bin/named"));
        run(command.arg0(name).env_clear().env("PATH", scene.path())).stdout
    };
    for name in ["named", "bin/named", text(&scene.state("bin/named"))] {
        assert_eq!(started_as(name), format!("{}\n", text(&named)), "{name}");
    }
    assert_eq!(started_as("-named"), "-named\n", "a login shell");
}

#[test]
fn other_commands_look_at_the_program_that_is_on_and_not_at_the_starter() {
    if nothing_to_test_with() {
        return;
    }
    let scene = Scene::new();
    scene.on();
    let app = scene.store.app();
    let checked = scene.report(&["check", "app"]);
    assert_eq!(checked["programs"][0]["path"], text(&app), "{checked}");
    let advised = run(&mut scene.becalm(&["advise", "app"]));
    assert!(advised.stdout.contains(text(&app)), "{advised:?}");
    let started = run(&mut scene.becalm(&["run", "--strict", "--", "app"]));
    assert_eq!((started.code, started.stdout.as_str()), (Some(0), "one two\n"), "{started:?}");
}

#[test]
fn a_list_says_what_the_starter_would_find() {
    if nothing_to_test_with() {
        return;
    }
    let scene = Scene::new();
    scene.on();
    scene.assert_listed(true, "as it was switched on");
    for name in ["starts", "index.so"] {
        let (file, other) = (scene.state(name), scene.state("other"));
        fs::rename(&file, &other).expect("renamed");
        scene.assert_listed(false, name);
        scene.assert_started(false, &[], name);
        fs::rename(&other, &file).expect("renamed");
        scene.assert_listed(true, name);
        scene.assert_started(true, &[], name);
    }
    for file in [scene.store.app(), scene.store.one("libone.so")] {
        // The same bytes, as a package would install them again.
        let copy = scene.store.path("copy");
        fs::copy(&file, &copy).expect("copied");
        fs::rename(&copy, &file).expect("renamed");
        scene.assert_listed(false, text(&file));
        assert_eq!(scene.start("app", &[]).0.stdout, "one two\n", "{}", file.display());
        scene.report(&["on", "--update"]);
        scene.assert_listed(true, text(&file));
        scene.assert_started(true, &[], text(&file));
    }
}

#[test]
fn an_update_keeps_a_removed_program_for_its_return() {
    if nothing_to_test_with() {
        return;
    }
    let scene = Scene::new();
    scene.on();
    let (app, away) = (scene.store.app(), scene.store.path("away"));
    fs::rename(&app, &away).expect("renamed");
    let updated = scene.report(&["on", "--update"]);
    assert_eq!(updated["programs"][0]["fresh"], false, "{updated}");
    assert!(scene.state("bin/app").symlink_metadata().is_err(), "a link to nothing");
    fs::rename(&away, &app).expect("renamed");
    scene.report(&["on", "--update"]);
    scene.assert_started(true, &[], "back again");
}

#[test]
fn a_report_says_what_was_written() {
    if nothing_to_test_with() {
        return;
    }
    let scene = Scene::new();
    let nothing = scene.report(&["on", "--update"]);
    assert_eq!(nothing["written"], false, "{nothing}");
    assert_eq!(fs::read_dir(scene.store.path("home")).expect("listed").count(), 0);
    let planned = scene.report(&["on", "--dry-run", "app"]);
    let done = scene.report(&["on", "app"]);
    for (report, is_done) in [(planned, false), (done, true)] {
        assert_eq!(report["written"], is_done, "{report}");
        let changed = report["files"].as_array().expect("files").iter().map(|it| &it["changed"]);
        assert!(changed.eq([is_done; 2].iter()), "{report}");
        assert_eq!(report["programs"][0]["fresh"], if is_done { json!(true) } else { json!(null) });
    }
}

#[test]
fn a_program_outside_of_the_callers_path_starts_where_it_was() {
    if nothing_to_test_with() {
        return;
    }
    let scene = Scene::new();
    scene.on();
    scene.assert_started(true, &[("PATH", "/nonexistent")], "another PATH");
    fs::remove_file(scene.state("starts")).expect("removed");
    scene.assert_started(false, &[], "without its list");
}

#[test]
fn off_gives_the_home_directory_back_to_the_byte() {
    if nothing_to_test_with() {
        return;
    }
    let scene = Scene::new();
    let home = scene.store.path("home");
    fs::write(home.join(".profile"), "export X=1").expect("written");
    let all = || {
        let mut found = BTreeSet::new();
        let mut folders = vec![home.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("listed").flatten() {
                let path = entry.path();
                found.insert((path.clone(), fs::read(&path).ok()));
                folders.extend(path.is_dir().then_some(path));
            }
        }
        found
    };
    let before = all();
    for output in twenty(|_| scene.becalm(&["on", "app"])) {
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), stderr.as_ref()), (Some(0), ""));
    }
    scene.assert_started(true, &[], "after twenty at once");
    assert_ne!(all(), before);
    let ran = run(&mut scene.becalm(&["off"]));
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    assert_eq!(all(), before);
}

#[test]
fn a_cold_start_of_a_program_that_is_on_is_recorded_and_the_next_is_read_ahead() {
    if nothing_to_test_with() {
        return;
    }
    let scene = Scene::new();
    let files = large_program(&scene.store);
    let data = scene.store.path("data");
    fs::write(&data, vec![7; 1 << 20]).expect("written");
    if !is_evicted(&data) {
        return;
    }
    // This becalm is removed later.
    let helper = scene.store.path("becalm");
    fs::copy(becalm().get_program(), &helper).expect("copied");
    let program = text(&scene.store.path("cold")).to_owned();
    let mut on = Command::new(&helper);
    for (name, value) in scene.becalm(&[]).get_envs() {
        match value {
            Some(value) => on.env(name, value),
            None => on.env_remove(name),
        };
    }
    let ran = run(on.args(["on", &program]));
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");

    let home = scene.store.path("home");
    let start = |file: &PathBuf, is_done: &mut dyn FnMut() -> bool| {
        let mut command = Command::new(file);
        command.env_clear().env("HOME", &home).env("PATH", "/usr/bin:/bin");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().expect("starts");
        wait_for("the becalm beside it", is_done);
        let output = finish(child);
        (output.status.code(), output.stdout, output.stderr)
    };
    let link = scene.state("bin/cold");
    let plain = start(&files[files.len() - 1], &mut || true);
    assert_eq!(start(&link, &mut || true), plain);
    assert!(kept(&home, "").is_empty(), "a warm start begins nothing");

    let records = |ending| kept(&home, ending);
    let mut is_recorded = || records("lock").is_empty() && !records(".pages").is_empty();
    files.iter().for_each(|path| evict(path));
    assert_eq!(start(&link, &mut is_recorded), plain);
    let record = records(".pages").pop().expect("a record");
    let header = lines(&record).swap_remove(0);
    assert_eq!(header["command"], program);

    // Only a becalm that reads by the record brings this file into memory.
    fs::write(&record, format!("{header}\n{}\n", line(&data, 100))).expect("written");
    files.iter().chain([&data]).for_each(|path| evict(path));
    assert_eq!(start(&link, &mut || pages_in_memory(&data) >= 100), plain);

    evict(&data);
    let warm = scene.report(&["run", "--warm"]);
    assert_eq!(warm["programs"][0]["path"], program);
    assert_eq!(residency(&data, 99), Residency::InMemory);

    fs::remove_file(&helper).expect("removed");
    files.iter().chain([&data]).for_each(|path| evict(path));
    assert_eq!(start(&link, &mut || true), plain, "without becalm");
    assert_eq!(residency(&data, 3), Residency::OnDisk);
}

#[test]
fn a_dry_run_and_a_refused_name_write_nothing() {
    if nothing_to_test_with() {
        return;
    }
    let scene = Scene::new();
    assert_eq!(run(&mut scene.becalm(&["on", "--dry-run", "app"])).code, Some(0));
    assert_eq!(run(&mut scene.becalm(&["on", "app", "no-such"])).code, Some(2));
    assert_eq!(fs::read_dir(scene.store.path("home")).expect("listed").count(), 0);
}
