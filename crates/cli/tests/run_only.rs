//! `becalm run --only`: programs that the program starts get the environment of becalm.

mod support;

use std::collections::BTreeSet;

use support::run;
use support::store::{Store, nothing_to_test_with, text};

/// The program executes a shell, which prints its environment.
const PROGRAM: &str = r#"
    #include <stdlib.h>
    const char *one(void);
    int main(void) { one(); return system("env"); }"#;

/// The variables that becalm sets, as the tests set them before.
const BEFORE: [&[(&str, &str)]; 5] = [
    &[],
    &[("LD_AUDIT", "")],
    &[("BECALM", "nobind"), ("GLIBC_TUNABLES", "glibc.malloc.check=0:")],
    &[("BECALM", ""), ("GLIBC_TUNABLES", "glibc.rtld.optional_static_tls=9000")],
    &[("GLIBC_TUNABLES", "glibc.rtld.optional_static_tls=1"), ("BECALM", "noahead,,x")],
];

struct Scene {
    store: Store,
    program: String,
}

impl Scene {
    fn new() -> Self {
        let store = Store::new();
        store.source("program.c", PROGRAM);
        let one = store.one("libone.so");
        let program = text(&store.path("program")).to_owned();
        let run_path = format!("-Wl,-rpath,{}", text(one.parent().expect("a folder")));
        let arguments = ["program.c", "-o", &program, &run_path, text(&one)];
        support::cc(store.dir.path(), &arguments);
        Self { store, program }
    }

    /// Returns the environment of the program's child.
    fn environment(&self, arguments: &[&str], before: &[(&str, &str)]) -> BTreeSet<String> {
        let mut command = self.store.becalm(&[arguments, &[&self.program]].concat());
        if arguments.is_empty() {
            let becalm = self.store.becalm(&[]);
            command = std::process::Command::new(&self.program);
            for (name, value) in becalm.get_envs() {
                match value {
                    Some(value) => command.env(name, value),
                    None => command.env_remove(name),
                };
            }
        }
        let ran = run(command.envs(before.iter().copied()));
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{arguments:?} {before:?}");
        ran.stdout.lines().map(str::to_owned).collect()
    }
}

#[test]
fn children_of_an_only_start_have_the_environment_that_becalm_had() {
    if nothing_to_test_with() {
        return;
    }
    let scene = Scene::new();
    for before in BEFORE {
        let plain = scene.environment(&[], before);
        let only = scene.environment(&["run", "--strict", "--only", "--"], before);
        assert_eq!(only, plain, "{before:?}");
        let with_bindings_left = ["run", "--strict", "--only", "--no-bind", "--"];
        assert_eq!(scene.environment(&with_bindings_left, before), plain, "{before:?}");
        let usual = scene.environment(&["run", "--strict", "--"], before);
        let is_index = |line: &String| line.starts_with("LD_AUDIT=/");
        assert!(usual.iter().any(is_index) && !plain.iter().any(is_index), "{usual:?}");
    }
}

/// Each module has its own memory. The one of `--only` takes its additions out, and the other one nothing more.
#[test]
fn an_index_of_the_session_stays_in_the_environment_of_children() {
    if nothing_to_test_with() {
        return;
    }
    let scene = Scene::new();
    let index = text(&scene.store.path("session.so")).to_owned();
    let made = run(&mut scene.store.becalm(&["index", "--program", &scene.program, "-o", &index]));
    assert_eq!(made.code, Some(0), "{made:?}");
    let before =
        [("LD_AUDIT", &*index), ("GLIBC_TUNABLES", "a.b=1:c.d=2"), ("BECALM", "noahead,nobind")];
    let plain = scene.environment(&[], &before);
    assert!(plain.contains(&format!("LD_AUDIT={index}")), "{plain:?}");
    assert_eq!(scene.environment(&["run", "--strict", "--only", "--"], &before), plain);
}

#[test]
fn children_of_a_program_that_is_on_have_the_environment_of_its_caller() {
    if nothing_to_test_with() {
        return;
    }
    let mut scene = Scene::new();
    let ran = run(&mut scene.store.becalm(&["on", &scene.program]));
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    let plain = BEFORE.map(|before| scene.environment(&[], before));
    scene.program = text(&scene.store.path("home/.local/state/becalm/on/bin/program")).to_owned();
    for (before, plain) in BEFORE.iter().zip(plain) {
        assert_eq!(scene.environment(&[], before), plain, "{before:?}");
    }
}

#[test]
fn an_only_start_is_answered_by_the_index() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let app = store.app();
    let answered = |flag: &[&str]| {
        let arguments = [&["run", "--strict", "--no-ahead"], flag, &["--", text(&app)]].concat();
        store.logged("bindings", "one two\n", &arguments);
        let log = std::fs::read_to_string(store.path("log")).expect("a log");
        let searches = log.lines().filter_map(|line| Some(line.split_once("\tsearch\t")?.1));
        // Without the addresses of the objects.
        searches.map(|line| line.split('\t').skip(1).collect::<Vec<_>>().join(" ")).collect()
    };
    let usual: Vec<String> = answered(&[]);
    let one = store.one("libone.so");
    assert!(usual.iter().any(|line| line.contains(text(&one))), "{usual:?}");
    assert_eq!(answered(&["--only"]), usual);
}
