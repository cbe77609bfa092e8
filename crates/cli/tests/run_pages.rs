//! `becalm run --share-pages` and `becalm on --share-pages`: starts map the relocated pages of libraries
//! from a file, and are what they were without it.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use support::store::{Store, nothing_to_test_with, text};
use support::{Ran, cc, run, twenty, wait_for};

/// Sixteen tables of 8,000 pointers each, into the library itself, the program, libc (one of them chosen by
/// a resolver) and its brother; words that are left to the loader; and a word that a constructor changes.
const LIBRARY: &str = r#"
    #include <stdint.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    extern int of_program(int);
    extern int of_brother;
    static __thread int of_thread = 5;
    extern __thread int shared_thread;
    __thread int shared_thread = 6;
    static int here;
    int *changed = &here;
    static int other = 3;
    __attribute__ ((constructor)) static void begin(void) { changed = &other; }
    typedef struct { int *inside; int (*program)(int); size_t (*length)(const char *);
        int *brother; void *(*allocate)(size_t); void *null; uint64_t number; void *more; } row;
    #define ROW { &here, of_program, strlen, &of_brother, malloc, 0, 77, &changed },
    #define TEN(x) x x x x x x x x x x
    row rows[] = { TEN(TEN(TEN(TEN(ROW)))) };
    uint64_t examine(void) {
        uint64_t sum = 0;
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            sum += (rows[i].inside == &here) + 2 * (rows[i].program(1) == 8)
                + 4 * (rows[i].length("four") == 4) + 8 * (*rows[i].brother == 9)
                + 16 * (rows[i].allocate == malloc) + 32 * (rows[i].null == 0)
                + 64 * (rows[i].number == 77) + 128 * (rows[i].more == &changed);
        rows[7].number = sum;
        return sum + *changed + of_thread + shared_thread;
    }
    void *place(void) { return rows; }
"#;
const BROTHER: &str = "int of_brother = 9; int *const to_it = &of_brother;";
const PROGRAM: &str = r#"
    #include <stdint.h>
    #include <stdio.h>
    uint64_t examine(void);
    void *place(void);
    int of_program(int n) { return n + 7; }
    int main(int count, char **arguments) {
        uint64_t sum = examine();
        if (count > 1) printf("%p %p\n", place(), (void *) main);
        else printf("%llu\n", (unsigned long long) sum);
        return 3;
    }"#;
const PRINTED: &str = "2550014\n";

struct Scene {
    store: Store,
    program: String,
}

impl Scene {
    fn new() -> Self {
        let store = Store::new();
        let dir = store.path("bin");
        fs::create_dir_all(&dir).expect("made");
        for (name, source) in [("lib.c", LIBRARY), ("brother.c", BROTHER), ("program.c", PROGRAM)] {
            fs::write(dir.join(name), source).expect("written");
        }
        support::cc_library(&dir, "brother.c", "libbrother.so", &[]);
        let more = ["-L.", "-lbrother", "-Wl,-rpath,$ORIGIN", "-Wl,-z,lazy"];
        support::cc_library(&dir, "lib.c", "librows.so", &more);
        let flags = ["program.c", "-o", "app", "-L.", "-lrows", "-lbrother", "-Wl,-rpath,$ORIGIN"];
        cc(&dir, &[&flags[..], &["-rdynamic", "-pie", "-fPIE"]].concat());
        // An index leaves out what was changed a moment ago.
        support::store::let_the_clock_pass();
        let program = text(&dir.join("app")).to_owned();
        Self { store, program }
    }

    fn folder(&self) -> PathBuf {
        self.store.path("cache/pages")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.store.becalm(arguments);
        let cache = self.store.path("cache");
        if !cache.exists() {
            fs::create_dir(&cache).expect("made");
            fs::set_permissions(&cache, fs::Permissions::from_mode(0o700)).expect("set");
        }
        command.env("BECALM_CACHE", cache);
        command
    }

    fn run(&self) -> Vec<&str> {
        vec!["run", "--strict", "--no-ahead", "--share-pages", "--", &self.program]
    }

    /// Returns what the module says about pages in a start that is as it should be.
    fn said_by(&self, mut command: Command) -> String {
        let log = self.store.path("log");
        let _ = fs::remove_file(&log);
        let ran = run(command.env("BECALM", format!("log:{}", text(&log))));
        assert_eq!(
            (ran.code, ran.stdout.as_str(), ran.stderr.as_str()),
            (Some(3), PRINTED, ""),
            "{ran:?}"
        );
        let said = fs::read_to_string(&log).unwrap_or_default();
        let line =
            said.lines().find_map(|line| Some(line.split_once("\tpages\t0\t")?.1.to_owned()));
        line.unwrap_or_else(|| "nothing".to_owned())
    }

    fn said(&self) -> String {
        self.said_by(self.command(&self.run()))
    }

    /// Returns the file of pages; none while it is made.
    fn file(&self) -> Option<PathBuf> {
        let entries = fs::read_dir(self.folder()).ok()?.flatten().map(|entry| entry.path());
        let files: Vec<PathBuf> = entries.collect();
        let [file] = files.as_slice() else { return None };
        file.extension().is_none().then(|| file.clone())
    }

    fn made(&self) -> PathBuf {
        self.said();
        wait_for("the pages", || self.file().is_some());
        let file = self.file().expect("made");
        assert!(self.said().starts_with("mapped"), "{}", self.said());
        file
    }

    /// Returns the addresses of the library and of the program.
    fn places(&self, arguments: &[&str]) -> (String, String) {
        let ran: Ran = run(&mut self.command(&[arguments, &["where"]].concat()));
        let (library, program) = ran.stdout.trim().split_once(' ').expect("two places");
        (library.to_owned(), program.to_owned())
    }
}

#[test]
fn starts_map_the_pages_and_only_libraries_have_one_place() {
    if nothing_to_test_with() || !cfg!(target_arch = "x86_64") {
        return;
    }
    let scene = Scene::new();
    assert_eq!(scene.said(), "nothing");
    let file = scene.made();
    assert_eq!(file.metadata().expect("there").permissions().mode() & 0o777, 0o600);
    assert!(file.metadata().expect("there").len() > 600_000, "the pages of the tables");
    let starts: Vec<(String, String)> = (0..4).map(|_| scene.places(&scene.run())).collect();
    let libraries: BTreeSet<&String> = starts.iter().map(|(library, _)| library).collect();
    let programs: BTreeSet<&String> = starts.iter().map(|(_, program)| program).collect();
    assert_eq!((libraries.len(), programs.len()), (1, 4), "{starts:?}");
    let without = ["run", "--strict", "--no-ahead", "--", &scene.program];
    let plain: BTreeSet<String> = (0..4).map(|_| scene.places(&without).0).collect();
    assert_eq!(plain.len(), 4, "{plain:?}");
}

#[test]
fn another_environment_moves_nothing_and_other_starts_are_as_without_pages() {
    if nothing_to_test_with() || !cfg!(target_arch = "x86_64") {
        return;
    }
    let scene = Scene::new();
    scene.made();
    for length in [1, 100, 5000, 50_000] {
        let mut command = scene.command(&scene.run());
        command.env("LONG", "x".repeat(length));
        assert!(scene.said_by(command).starts_with("mapped"), "{length}");
    }
    for (name, value, said) in [
        ("LD_BIND_NOW", "1", "nothing"),
        ("LD_PRELOAD", text(&scene.store.one("libone.so")), "nothing"),
        ("LD_LIBRARY_PATH", text(&scene.store.path("")), "nothing"),
    ] {
        let mut command = scene.command(&scene.run());
        command.env(name, value);
        let found = scene.said_by(command);
        assert!(found == said || found.starts_with("declined"), "{name}: {found}");
    }
    // Little address space, and addresses that are not random.
    let program = ["sh", "-c", "ulimit -v 4000000; exec \"$@\"", "sh"];
    let limited = [&scene.run()[..5], &program, &[&scene.program]].concat();
    let found = scene.said_by(scene.command(&limited));
    assert!(found == "nothing" || found.starts_with("declined"), "{found}");
    let fixed = [&scene.run()[..5], &["setarch", "-R", &scene.program]].concat();
    scene.said_by(scene.command(&fixed));
}

#[test]
fn a_file_of_pages_that_is_not_as_it_was_made_is_not_used() {
    if nothing_to_test_with() || !cfg!(target_arch = "x86_64") {
        return;
    }
    let scene = Scene::new();
    let file = scene.made();
    let whole = fs::read(&file).expect("read");
    let word = |at: usize| u32::from_ne_bytes(whole[at..at + 4].try_into().expect("four")) as usize;
    let tables = word(20);
    let declined = |bytes: &[u8], what: &str| {
        fs::remove_file(&file).expect("removed");
        fs::write(&file, bytes).expect("written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("set");
        let found = scene.said();
        let is_as_without = found == "nothing" || found.starts_with("declined");
        assert!(is_as_without, "{what}: {found}");
        wait_for("the maker", || scene.file().is_some());
    };
    // All of the header, and parts of each table.
    for at in (0..112).step_by(3).chain((112..tables).step_by(tables / 60)) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        declined(&bytes, &format!("byte {at}"));
    }
    for length in [0, 1, 111, 112, tables, whole.len() - 4096, whole.len() - 1] {
        declined(&whole[..length], &format!("{length} bytes"));
    }
    fs::remove_file(&file).expect("removed");
    assert!(Command::new("mkfifo").arg(&file).status().expect("mkfifo starts").success());
    let found = scene.said();
    assert!(found == "nothing" || found.starts_with("declined"), "a FIFO: {found}");
    wait_for("the maker", || scene.file().is_some());
    fs::remove_file(&file).expect("removed");
    fs::write(&file, &whole).expect("written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("set");
    assert_eq!(scene.said(), "nothing", "others can read it");
    wait_for("the pages, again", || scene.said().starts_with("mapped"));
    let library = scene.store.path("bin/librows.so");
    fs::hard_link(&library, scene.store.path("bin/another-name")).expect("linked");
    assert_eq!(scene.said(), "declined\tother-times");
    let mut command = scene.command(&scene.run());
    let log = scene.store.path("log");
    let _ = fs::remove_file(&log);
    run(command.env("BECALM", format!("nopages,log:{}", text(&log))));
    assert!(!fs::read_to_string(&log).expect("a log").contains("\tpages\t"));
}

#[test]
fn twenty_at_once_make_one_file_and_are_right() {
    if nothing_to_test_with() || !cfg!(target_arch = "x86_64") {
        return;
    }
    let scene = Scene::new();
    scene.said();
    for output in twenty(|_| scene.command(&scene.run())) {
        assert_eq!(String::from_utf8_lossy(&output.stdout), PRINTED);
    }
    wait_for("the pages", || scene.file().is_some());
    for output in twenty(|_| scene.command(&scene.run())) {
        assert_eq!(String::from_utf8_lossy(&output.stdout), PRINTED);
    }
    assert!(scene.said().starts_with("mapped"));
}

#[test]
fn a_program_that_is_on_has_its_pages_made_by_the_first_start_after_a_boot() {
    if nothing_to_test_with() || !cfg!(target_arch = "x86_64") {
        return;
    }
    let scene = Scene::new();
    let ran = run(&mut scene.command(&["on", &scene.program, "--share-pages"]));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let link = scene.store.path("home/.local/state/becalm/on/bin/app");
    let start = || {
        let mut command = Command::new(&link);
        let cache = scene.store.path("cache");
        command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", scene.store.path("home"));
        command.env("BECALM_CACHE", cache);
        scene.said_by(command)
    };
    assert_eq!(start(), "declined\tmissing");
    wait_for("the pages", || scene.file().is_some());
    assert!(start().starts_with("mapped"), "{}", start());
    let ran = run(&mut scene.command(&["on", "--no-share-pages", &scene.program]));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(start(), "nothing");
    assert!(scene.file().is_some());
    assert_eq!(run(&mut scene.command(&["off"])).code, Some(0));
    assert!(scene.file().is_none());
}
