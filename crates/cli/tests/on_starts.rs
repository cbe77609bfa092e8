//! `becalm on`: its starter starts programs by the index, and plainly whenever anything is unexpected.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use becalm_host::pages::resident::Residency;
use becalm_testing::skip;
use serde_json::{Value, json};
use support::cold::{
    evict, is_evicted, kept, large_program, line, lines, pages_in_memory, residency,
};
use support::store::{self, Store, nothing_to_test_with, text};
use support::{Ran, becalm, cc, finish, is_missing, run, twenty, wait_for};

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
        command.env("BECALM_CACHE", self.store.path("cache"));
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

    /// Returns the file with the number of starts of the app.
    fn count_file(&self) -> PathBuf {
        let folders = fs::read_dir(self.store.path("cache")).expect("listed").flatten();
        let mut files = folders.map(|folder| folder.path().join("app.starts"));
        files.find(|file| file.exists()).expect("a file of starts")
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
fn a_dry_run_and_a_refused_name_alone_write_nothing() {
    if nothing_to_test_with() {
        return;
    }
    let scene = Scene::new();
    let app = scene.store.app();
    symlink(&app, app.with_file_name("alias")).expect("linked");
    let listed = run(&mut scene.becalm(&["on", "--dry-run", "app", "alias"])).stdout;
    assert!(listed.starts_with("alias, app ") && listed.lines().count() == 2, "{listed}");
    assert_eq!(run(&mut scene.becalm(&["on", "no-such"])).code, Some(2));
    assert_eq!(fs::read_dir(scene.store.path("home")).expect("listed").count(), 0);
    let ran = run(&mut scene.becalm(&["on", "app", "no-such"]));
    assert_eq!((ran.code, &*ran.stderr), (Some(2), "becalm: no-such: command not found\n"));
    scene.assert_started(true, &[], "the other name");
}

/// Starts the app, with the folder of counts on a full disk and on a read-only one, and switches programs on with
/// the home directory on such disks.
const DISKS: &str = r#"
set -e
mount --make-rprivate /
mount -t tmpfs -o size=8k,mode=700 counts "$COUNTS"
{ head -c 65536 /dev/zero || :; } 2>&- >"$COUNTS/app.starts" || :
chmod 600 "$COUNTS/app.starts"
app
mount -o remount,ro "$COUNTS"
app
mount --bind "$HOME" "$HOME"
mount -o remount,ro,bind "$HOME"
! "$US" on app || echo written
umount "$HOME"
mount -t tmpfs -o size=64k home "$HOME"
! "$US" on app || echo written
"#;

#[test]
fn disks_that_take_nothing_stop_no_start_and_are_found_before_anything_is_listed() {
    if nothing_to_test_with() {
        return;
    }
    let scene = Scene::new();
    scene.on();
    let count = scene.count_file();
    let mut command = scene.becalm(&[]);
    let mut shell = Command::new("unshare");
    shell.args(["--mount", "sh", "-c", DISKS]).env("COUNTS", count.parent().expect("a folder"));
    shell
        .env("US", command.get_program())
        .envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ran = run(&mut shell);
    if ran.stderr.contains("unshare:") || ran.stderr.contains("mount:") {
        skip(&format!("nothing can be mounted here: {}", ran.stderr.trim()));
        return;
    }
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "one two\none two\n"), "{ran:?}");
    let said: Vec<&str> = ran.stderr.lines().collect();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(
        said[0].contains("Read-only file system") && said[1].contains("bytes are free"),
        "{said:?}"
    );
    command.args(["on", "--list"]);
    assert!(run(&mut command).stdout.contains(", 0 starts, fresh"));
}

#[test]
fn starts_are_counted_in_a_file_of_becalms_alone() {
    if nothing_to_test_with() {
        return;
    }
    let scene = Scene::new();
    scene.on();
    let count = || scene.report(&["on", "--list"])["programs"][0]["starts"].as_u64();
    assert_eq!(count(), Some(0));
    scene.assert_started(true, &[], "counted");
    scene.assert_started(false, &[("BECALM", "off")], "counted too");
    assert_eq!(count(), Some(2));
    scene.on();
    assert_eq!(count(), Some(2), "switched on again");
    let file = scene.count_file();
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -f 0; exec app"]).env("PATH", scene.path());
    assert_eq!(run(&mut limited).stdout, "one two\n", "no file may be written");
    assert_eq!(count(), Some(2), "no file may be written");

    let other = scene.store.path("elsewhere");
    fs::write(&other, "").expect("written");
    fs::set_permissions(&other, fs::Permissions::from_mode(0o600)).expect("set");
    let own = scene.store.path("own");
    fs::rename(&file, &own).expect("moved");
    scene.assert_started(true, &[], "no file");
    assert!(!file.exists(), "a start makes no file");
    symlink(&other, &file).expect("linked");
    scene.assert_started(true, &[], "a link");
    fs::remove_file(&file).expect("removed");
    fs::write(&file, "").expect("written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("set");
    scene.assert_started(true, &[], "a file with another mode");
    let length = fs::metadata(&file).expect("is there").len();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("set");
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&file, Some(65534), None).expect("given away");
        scene.assert_started(true, &[], "a file of another user");
        assert_eq!(fs::metadata(&file).expect("is there").len(), length);
    }
    fs::remove_file(&file).expect("removed");
    run(Command::new("mkfifo").args(["-m", "600", text(&file)]));
    scene.assert_started(true, &[], "a pipe");
    assert_eq!(fs::metadata(&other).expect("is there").len(), 0);
    fs::rename(&own, &file).expect("moved");
    scene.report(&["off"]);
    let cache = fs::read_dir(scene.store.path("cache")).expect("the user's folder stays");
    assert_eq!(cache.count(), 0, "off removes the counts");
}

#[test]
fn the_starter_makes_at_most_twenty_system_calls() {
    if nothing_to_test_with() {
        return;
    }
    if is_missing("strace", "strace") {
        return;
    }
    let scene = Scene::new();
    scene.on();
    let calls = scene.store.path("calls");
    let mut strace = Command::new("strace");
    strace.arg("-o").arg(&calls).arg(scene.state("bin/app")).env("PATH", scene.path());
    assert_eq!(run(&mut strace).stdout, "one two\n");
    let calls = fs::read_to_string(&calls).expect("read");
    // After its own start, up to that of the program.
    let own = calls.lines().skip(1).position(|line| line.starts_with("execve("));
    assert!(own.is_some_and(|own| own < 20), "{calls}");
}
