//! `lab compare` and `becalm demo` on a small store that is built here: the table says what
//! each strategy does, a broken start is refused in one line, and nothing is left behind.

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use becalm_testing::{skip, skipped};
use serde_json::Value;
use support::store::{Store, let_the_clock_pass, nothing_to_test_with, text};
use support::{Ran, cc, run};

/// A store, and its own directory for temporary files, which must be empty afterwards.
struct Scene {
    store: Store,
    tmp: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let store = Store::new();
        let tmp = store.path("tmp");
        fs::create_dir(&tmp).expect("made");
        Self { store, tmp }
    }

    fn becalm(&self, arguments: &[&str]) -> Command {
        let mut command = self.store.becalm(arguments);
        command.env("TMPDIR", &self.tmp);
        command
    }

    /// Returns a command of the lab, which the workspace builds beside becalm.
    fn lab(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(lab());
        command.args(arguments).stdin(Stdio::null()).env("TMPDIR", &self.tmp);
        for name in ["LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT"] {
            command.env_remove(name);
        }
        command
    }

    fn compare(&self, program: &Path, more: &[&str]) -> Ran {
        let root = self.store.root();
        let mut arguments = vec!["compare", "--store", text(&root)];
        arguments.extend(more);
        let at = arguments.iter().position(|argument| *argument == "--").unwrap_or(arguments.len());
        arguments.insert(at, text(program));
        run(&mut self.lab(&arguments))
    }

    fn compare_without_store(&self, program: &Path, strategies: &str) -> Value {
        let some = ["compare", text(program), "--json", "--no-trials", "--strategies", strategies];
        let ran = run(&mut self.lab(&[&some[..], &["--runs", "1", "--run", ""]].concat()));
        assert_eq!(ran.code, Some(0), "{ran:?}");
        serde_json::from_str(&ran.stdout).expect("JSON")
    }

    fn assert_clean(&self) {
        let left: Vec<_> = fs::read_dir(&self.tmp).expect("there").flatten().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// True if no mount namespace can be made.
fn no_mount_namespaces() -> bool {
    let user = ["--user", "--map-current-user"];
    let is_root = rustix::process::geteuid().is_root();
    let arguments = if is_root { &user[..0] } else { &user[..] };
    let made = Command::new("unshare").args(arguments).args(["--mount", "true"]).output();
    !made.is_ok_and(|made| made.status.success()) && skipped("no mount namespaces here")
}

/// The lab's program, beside becalm's.
fn lab() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_becalm")).with_file_name("lab")
}

/// Asserts exit code 2, nothing on stdout, and one line on stderr that contains the words.
fn assert_refused(ran: &Ran, words: &str) {
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
    assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
    assert!(ran.stderr.starts_with("lab: ") && ran.stderr.contains(words), "{ran:?}");
}

fn nothing_to_compare_with() -> bool {
    let is_built = lab().is_file() || !skipped("no lab beside becalm (cargo build -p lab)");
    !is_built || nothing_to_test_with() || no_mount_namespaces()
}

/// The cell of a row and a column.
fn cell<'a>(table: &'a Value, row: &str, column: &str) -> &'a Value {
    let columns = table["columns"].as_array().expect("columns");
    let at = columns.iter().position(|name| name == column);
    let at = at.unwrap_or_else(|| panic!("no column {column}: {columns:?}"));
    let rows = table["rows"].as_array().expect("rows");
    let row = rows.iter().find(|other| other["id"] == row);
    &row.unwrap_or_else(|| panic!("no such row"))["cells"][at]
}

#[test]
fn the_table_says_what_each_strategy_does_and_the_store_stays_as_it_was() {
    if nothing_to_compare_with() {
        return;
    }
    let scene = Scene::new();
    let app = scene.store.app();
    let before: Vec<Vec<u8>> = [&app, &scene.store.one("libone.so"), &scene.store.two("libtwo.so")]
        .map(|p| fs::read(p).unwrap())
        .into();
    let changed = app.metadata().unwrap().ctime();
    let ran = scene.compare(&app, &["--json", "--runs", "2", "--run", ""]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let table: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(table["schema"], "becalm/compare/1");
    let value = |row: &str, column: &str| cell(&table, row, column)["value"].as_f64();
    let verdict = |row: &str, column: &str| cell(&table, row, column)["verdict"].clone();

    assert!(value("missed-opens", "control") > Some(0.0));
    for column in ["absolute", "farm-leaf", "farm", "index", "audit"] {
        assert_eq!(value("objects", column), value("objects", "control"), "{column}");
        assert_eq!(verdict("same-objects", column), "yes", "{column}");
        assert_eq!(verdict("undo", column), "yes", "{column}");
        assert_eq!(verdict("stock-glibc", column), "yes", "{column}");
        assert_eq!(verdict("preload", column), "yes", "{column}");
        assert_eq!(verdict("two-builds", column), "yes", "{column}");
        assert_eq!(verdict("static-tls", column), "yes", "{column}");
    }
    let bindings = ["interposer", "symbol-versions", "ifunc", "copy-relocation", "unique"];
    for row in bindings {
        let note = |column| cell(&table, row, column)["note"].as_str().unwrap_or_default();
        // This machine's compiler or C library may lack it.
        if verdict(row, "index") == "not-tried" && ["ifunc", "copy-relocation"].contains(&row) {
            skip(&format!("{row}: {}", note("index")));
            continue;
        }
        for column in ["absolute", "farm", "index", "index-nobind", "audit"] {
            assert_eq!(verdict(row, column), "yes", "{row}, {column}: {}", note(column));
            let binds = ["index", "audit"].contains(&column) && cfg!(target_arch = "x86_64");
            assert_eq!(
                note(column).contains("symbols bound by the index"),
                binds,
                "{row}, {column}"
            );
        }
    }
    // What the design says of each (docs/choosing.md).
    for (column, library_path, floor) in
        [("absolute", "no", "yes"), ("farm", "yes", "no"), ("index", "yes", "yes")]
    {
        assert_eq!(verdict("library-path", column), library_path, "{column}");
        assert_eq!(verdict("hwcaps-floor", column), floor, "{column}");
    }
    assert_eq!(value("missed-opens", "index"), Some(0.0));
    assert_eq!(value("files-changed", "index"), Some(0.0));
    // Without a loader that reads them, the table has no result for notes and caches.
    for column in ["note", "ldcache"] {
        assert_eq!(value("missed-opens", column), None, "{column}");
        assert_eq!(verdict("library-path", column), "not-tried", "{column}");
        assert_eq!(verdict("stock-glibc", column), "no", "{column}");
    }
    let after: Vec<Vec<u8>> = [&app, &scene.store.one("libone.so"), &scene.store.two("libtwo.so")]
        .map(|p| fs::read(p).unwrap())
        .into();
    assert!(before == after && changed == app.metadata().unwrap().ctime(), "the store changed");
    scene.assert_clean();
}

#[test]
fn what_compare_writes_report_reads() {
    if nothing_to_compare_with() {
        return;
    }
    let scene = Scene::new();
    let asked = ["--json", "--runs", "1", "--run", "", "--no-trials", "--strategies", "absolute"];
    let ran = scene.compare(&scene.store.app(), &asked);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let (file, page) = (scene.store.path("table.json"), scene.store.path("page.html"));
    fs::write(&file, &ran.stdout).expect("written");
    let app = scene.store.app();
    let arguments = ["report", text(&app), "-o", text(&page), "--no-run", "--compare", text(&file)];
    let ran = run(&mut scene.becalm(&arguments));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(fs::read_to_string(&page).expect("a page").contains("whole start, times the control"));
}

#[test]
fn what_an_index_binds_the_loader_does_not_look_up() {
    if nothing_to_compare_with() || !cfg!(target_arch = "x86_64") {
        return;
    }
    let scene = Scene::new();
    let many = "int value = 1; int *pointers[3000] = { [0 ... 2999] = &value };\n\
                const char *one(void) { return *pointers[2000] == 1 ? \"one\" : \"none\"; }\n";
    scene.store.source("many.c", many);
    let library = scene.store.one("libone.so");
    cc(scene.store.dir.path(), &["-shared", "-fPIC", "-o", text(&library), "many.c"]);
    let_the_clock_pass();
    let app = scene.store.app();
    let ran = scene.compare(
        &app,
        &[
            "--json",
            "--runs",
            "1",
            "--run",
            "",
            "--no-trials",
            "--strategies",
            "index,index-nobind",
        ],
    );
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let table: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let value = |row: &str, column: &str| cell(&table, row, column)["value"].as_f64();
    assert!(value("bindings-applied", "index") > Some(3000.0), "{table}");
    for column in ["control", "index-nobind"] {
        assert_eq!(value("bindings-applied", column), None, "{column}");
        let looked_up = [value("symbol-lookups", column), value("symbol-lookups", "index")];
        assert!(looked_up[0] > looked_up[1], "{column}: {looked_up:?}");
        assert!(value("relocation-ms", column) > Some(0.0), "{column}");
    }
    let why = cell(&table, "bindings-applied", "index-nobind")["note"].as_str();
    assert!(why.is_some_and(|why| why.ends_with("nobind")), "{why:?}");
    scene.assert_clean();
}

#[test]
fn text_and_markdown_say_the_same_and_number_their_notes() {
    if nothing_to_compare_with() {
        return;
    }
    let scene = Scene::new();
    let asked = ["--runs", "1", "--run", "", "--no-trials", "--strategies", "note,index"];
    let plain = scene.compare(&scene.store.app(), &asked).stdout;
    assert!(
        plain.contains("missed opens") && plain.contains("[1] no loader that reads it"),
        "{plain}"
    );
    let markdown = scene.compare(&scene.store.app(), &[&asked[..], &["--markdown"]].concat());
    assert!(markdown.stdout.starts_with("| | control | index | note |\n| --- |"), "{markdown:?}");
    assert!(markdown.stdout.contains("| missed opens |"), "{markdown:?}");
    scene.assert_clean();
}

/// Its copy starts as the program does, and the notes say to which files a strategy was applied.
#[test]
fn a_store_that_is_not_named_is_found_as_check_finds_it() {
    if nothing_to_compare_with() {
        return;
    }
    let scene = Scene::new();
    let app = scene.store.app();
    let checked = run(&mut scene.becalm(&["check", "--json", text(&app)]));
    let checked: Value = serde_json::from_str(&checked.stdout).expect("JSON");
    let storm = &checked["programs"][0]["storm"];
    let table = scene.compare_without_store(&app, "absolute,farm,audit,index");
    for (row, field) in [("missed-opens", "missed_opens"), ("missed-stats", "missed_stats")] {
        let measured = cell(&table, row, "control")["value"].as_f64();
        assert_eq!(measured, storm[field].as_f64(), "{row}: {table}");
    }
    let notes = table["notes"].as_array().expect("a list");
    let root = scene.store.root();
    for note in [
        "changed in the program and its libraries: farm (--closure), absolute",
        "changed in the program alone: audit",
        "changed in no file: index",
        &format!("{} is taken as the program's store; --store names another", root.display()),
    ] {
        assert!(notes.iter().any(|known| known == note), "{note}: {notes:?}");
    }
    scene.assert_clean();
}

#[test]
fn a_program_of_no_store_is_compared_in_one_made_for_it() {
    if nothing_to_compare_with() {
        return;
    }
    let scene = Scene::new();
    // Its libraries are in one directory, which is not a store.
    let bundle = scene.store.path("bundle");
    fs::create_dir(&bundle).expect("made");
    for library in [scene.store.one("libone.so"), scene.store.two("libtwo.so")] {
        fs::copy(&library, bundle.join(library.file_name().expect("a name"))).expect("copied");
    }
    let (app, run_path) = (bundle.join("app"), "-Wl,-rpath,$ORIGIN");
    let libraries = ["bundle/libone.so", "bundle/libtwo.so"];
    cc(scene.store.dir.path(), &[&["app.c", "-o", text(&app), run_path], &libraries[..]].concat());
    let table = scene.compare_without_store(&app, "farm,index");
    assert_eq!(table["program"], text(&app));
    let notes = table["notes"].to_string();
    assert!(notes.contains("whose misses are not those of the program in its place"), "{notes}");
    assert!(cell(&table, "missed-opens", "control")["value"].as_f64() > Some(0.0), "{table}");
    assert_eq!(cell(&table, "undo", "farm")["verdict"], "yes", "{table}");
    scene.assert_clean();
}

#[test]
fn what_cannot_be_compared_is_refused_in_one_line() {
    if nothing_to_compare_with() {
        return;
    }
    let scene = Scene::new();
    let script = scene.store.path("script");
    fs::write(&script, "#!/bin/sh -e\n").expect("written");
    assert_refused(&scene.compare(&script, &[]), "a script; name what runs it: /bin/sh -e");
    let empty = scene.store.path("empty");
    fs::write(&empty, "").expect("written");
    assert_refused(&scene.compare(&empty, &[]), "not an ELF file");
    assert_refused(&scene.compare(&scene.store.path("nothing"), &[]), "No such file");
    assert_refused(&scene.compare(&scene.store.one("libone.so"), &[]), "a library, not a program");

    scene.store.source("static.c", "int _start;\n");
    let still = scene.store.path("static");
    cc(scene.store.dir.path(), &["-static", "-nostdlib", "static.c", "-o", text(&still)]);
    assert_refused(&scene.compare(&still, &[]), "a static program");

    let app = scene.store.app();
    let failing = scene.compare(&app, &["--", "x"]);
    assert_refused(&failing, "exit code 37");
    fs::remove_file(scene.store.one("libone.so")).expect("removed");
    assert_refused(&scene.compare(&app, &[]), "nothing answers libone.so");
    scene.assert_clean();
}

#[test]
fn an_endless_program_is_killed_and_nothing_is_left() {
    if nothing_to_compare_with() {
        return;
    }
    let scene = Scene::new();
    scene.store.source("endless.c", "int main(void) { for (;;) ; }\n");
    let app = scene.store.app();
    cc(scene.store.dir.path(), &["endless.c", "-o", text(&app)]);
    let ran = scene.compare(&app, &["--time-limit", "0.5"]);
    assert_refused(&ran, "did not end within 0.5 s and was killed");
    scene.assert_clean();
}

#[test]
fn an_interrupt_ends_it_with_130_and_nothing_left() {
    if nothing_to_compare_with() {
        return;
    }
    let scene = Scene::new();
    let (app, root) = (scene.store.app(), scene.store.root());
    // Rounds without end, so that the interrupt meets a start.
    let store = text(&root);
    let asked = ["compare", "--store", store, "--runs", "2000", "--run", "", text(&app)];
    let child = scene.lab(&asked).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("starts");
    let began = Instant::now();
    let has_scratch = || fs::read_dir(&scene.tmp).is_ok_and(|mut all| all.next().is_some());
    while !has_scratch() && began.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(child.try_wait().expect("known").is_none(), "it ended before it could be interrupted");
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
    let output = support::finish(child);
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    scene.assert_clean();
}

#[test]
fn no_room_and_no_right_are_said_and_nothing_is_left() {
    if nothing_to_compare_with() {
        return;
    }
    let scene = Scene::new();
    // A sparse file: too large to be copied, and no byte on the disk.
    let large = scene.store.one("large");
    fs::File::create(&large).and_then(|file| file.set_len(2_000_000_000)).expect("made");
    assert_refused(&scene.compare(&scene.store.app(), &[]), "more than the 1500 MB");
    fs::remove_file(&large).expect("removed");
    let mut command = scene.lab(&["compare", text(&scene.store.app())]);
    let ran = run(command.env("TMPDIR", "/nonexistent/tmp"));
    assert_refused(&ran, "no scratch directory in /nonexistent/tmp");
    if rustix::process::geteuid().is_root() {
        return;
    }
    let locked = scene.store.one("locked");
    fs::write(&locked, "x").expect("written");
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).expect("locked");
    assert_refused(&scene.compare(&scene.store.app(), &[]), "Permission denied");
    scene.assert_clean();
}

#[test]
fn the_demo_makes_a_storm_and_calms_it_and_leaves_nothing() {
    if nothing_to_test_with() {
        return;
    }
    let scene = Scene::new();
    let app = scene.store.app();
    let ran = run(&mut scene.becalm(&["demo", text(&app), "--", "x"]));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("3. The storm as it happens"), "{ran:?}");
    let lines: Vec<&str> = ran.stdout.lines().collect();
    let [.., gone, next] = lines.as_slice() else { panic!("{ran:?}") };
    assert!(gone.contains("misses are gone; none is left. The loader took "), "{ran:?}");
    assert!(!gone.starts_with("0 of") && next.starts_with("next  becalm run -- "), "{ran:?}");
    scene.assert_clean();
    let kept = scene.store.path("kept");
    let again = run(&mut scene.becalm(&["demo", "--keep", text(&kept), text(&app), "--", "x"]));
    assert_eq!(again.code, Some(0), "{again:?}");
    let variables = run(&mut scene.becalm(&["env", "--index", text(&kept.join("index.so"))]));
    assert!(variables.code == Some(0) && kept.join("store").is_dir(), "{variables:?}");
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut demo = scene.becalm(&["demo", text(&app), "--", "x"]);
    let unread = demo.stdout(writer).stderr(Stdio::piped()).output().expect("started");
    assert_eq!(
        (unread.status.code(), unread.stderr.as_slice()),
        (Some(141), &b""[..]),
        "{unread:?}"
    );
    scene.assert_clean();
}
