//! Strategies that a loader reads: given by `--reads`, or found in the loader's own file. The tests
//! use a copy of this machine's loader that claims to be patched. `cargo xtask loader-trial`
//! compares the behaviour of a patched loader with the prediction.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use support::store::{Store, json, nothing_to_test_with, text};
use support::{cc, run};

/// A store whose programs have notes, and a loader that claims to read them.
struct Scene {
    store: Store,
    loader: PathBuf,
}

impl Scene {
    /// Makes a scene with a loader whose file has the mark of a reader of notes, and these prefixes
    /// of stores, `@` for the scene's store; `None` for a plain copy.
    fn new(prefixes: Option<&str>) -> Self {
        let store = Store::new();
        let loader = store.path("ld.so");
        let mut bytes = fs::read(loader_of_this_machine()).expect("a loader");
        if let Some(prefixes) = prefixes.map(|list| list.replace('@', text(&store.root()))) {
            let marks = format!("\0/complete/1\0?\0dl_resolution_stores={prefixes}\0");
            bytes.extend(marks.bytes());
        }
        fs::write(&loader, bytes).expect("written");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&loader, mode).expect("set");
        let scene = Self { store, loader };
        scene.link();
        scene
    }

    /// Links the app anew, with that loader as its interpreter, and writes its note.
    fn link(&self) {
        let (root, app) = (self.store.root(), self.store.app());
        let [_, one, two] = self.store.packages;
        let run_path =
            format!("-Wl,--enable-new-dtags,-rpath,{0}/{two}/lib:{0}/{one}/lib", text(&root));
        let loader = format!("-Wl,--dynamic-linker,{}", text(&self.loader));
        let (one, two) = (self.store.one("libone.so"), self.store.two("libtwo.so"));
        let libraries = ["-Wl,--no-as-needed", text(&one), text(&two)];
        let app = ["app.c", "-o", text(&app), &run_path, &loader];
        cc(&self.store.path(""), &[&app[..], &libraries].concat());
        let fix = ["fix", "--with", "note", "--no-sync", "--store", text(&root), text(&root)];
        assert_eq!(run(&mut self.store.becalm(&fix)).code, Some(0));
    }

    fn of(&self, command: &mut Command) -> Value {
        json(&run(command))
    }

    /// The sources of the probes for libone.so, as predicted.
    fn sources(&self, more: &[&str], tunables: &str) -> Vec<String> {
        let (root, app) = (self.store.root(), self.store.app());
        let arguments = ["check", "--json", "--probes", "--store", text(&root), text(&app)];
        let mut command = self.store.becalm(&[&arguments[..], more].concat());
        let told = self.of(command.env("GLIBC_TUNABLES", tunables));
        let probes = told["programs"][0]["probes"].as_array().expect("probes");
        let ours = probes.iter().filter(|probe| probe["needed"] == "libone.so");
        let mut sources: Vec<_> =
            ours.map(|probe| probe["source"].as_str().expect("a word").to_owned()).collect();
        sources.dedup();
        sources
    }

    /// True if a trace of the app, whose loader reads nothing, equals the prediction.
    fn is_as_predicted(&self, more: &[&str], tunables: &str) -> bool {
        let (out, app) = (self.store.path("trace.json"), self.store.app());
        let arguments =
            [&["trace", "--json", "-o", text(&out)], more, &["--", text(&app)]].concat();
        let ran = run(self.store.becalm(&arguments).env("GLIBC_TUNABLES", tunables));
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "one two\n"), "{ran:?}");
        let told: Value = serde_json::from_slice(&fs::read(&out).expect("written")).expect("JSON");
        told["images"][0]["prediction"]["equal"].as_bool().expect("a prediction")
    }
}

fn loader_of_this_machine() -> PathBuf {
    let folders = ["/lib64", "/lib"].iter().filter_map(|folder| fs::read_dir(folder).ok());
    let mut paths = folders.flatten().filter_map(Result::ok).map(|entry| entry.path());
    let is_it = |path: &PathBuf| text(path).contains("/ld-linux");
    paths.find(is_it).unwrap_or_else(|| Path::new("/lib64/ld64.so.1").to_owned())
}

#[test]
fn a_loader_with_the_mark_is_taken_to_read_notes_and_any_other_is_not() {
    if nothing_to_test_with() {
        return;
    }
    assert_eq!(Scene::new(Some("@")).sources(&[], ""), ["note"]);
    // Notes need no store.
    assert_eq!(Scene::new(Some("")).sources(&[], ""), ["note"]);
    assert_eq!(Scene::new(None).sources(&[], ""), ["runpath"]);
}

#[test]
fn a_report_shows_the_answers_of_notes_where_the_loader_reads_them() {
    if nothing_to_test_with() {
        return;
    }
    let tells_notes = |prefixes: Option<&str>| {
        let scene = Scene::new(prefixes);
        let (app, page) = (scene.store.app(), scene.store.path("page.html"));
        let arguments = ["report", "--no-run", text(&app), "-o", text(&page)];
        let ran = run(&mut scene.store.becalm(&arguments));
        assert_eq!(ran.code, Some(0), "{ran:?}");
        fs::read_to_string(&page).expect("written").contains("<span class=\"faint\">note</span>")
    };
    assert!(tells_notes(Some("@")));
    assert!(!tells_notes(None));
}

#[test]
fn a_flag_and_the_tunable_say_otherwise_of_such_a_loader() {
    if nothing_to_test_with() {
        return;
    }
    let scene = Scene::new(Some("@"));
    assert_eq!(scene.sources(&["--reads", "none"], ""), ["runpath"]);
    assert_eq!(scene.sources(&["--reads", "note"], "glibc.rtld.resolution=0"), ["note"]);
    // With 2 it looks for a package's cache, which the store does not have.
    let by_value: [(&str, &[&str]); 4] = [
        ("0", &["runpath"]),
        ("1", &["note"]),
        ("2", &["package-cache", "runpath"]),
        ("3", &["note"]),
    ];
    for (value, sources) in by_value {
        assert_eq!(scene.sources(&[], &format!("glibc.rtld.resolution={value}")), sources);
    }
    // Tunables do not count in secure-execution mode, but notes are ignored.
    for value in ["0", "1", "2", "3"] {
        let tunables = format!("glibc.rtld.resolution={value}");
        assert_eq!(scene.sources(&["--secure", "yes"], &tunables), ["runpath"]);
    }
}

#[test]
fn caches_are_predicted_below_the_prefixes_that_the_loader_names() {
    if nothing_to_test_with() {
        return;
    }
    let scene = Scene::new(Some("/gnu/store"));
    let (root, app) = (scene.store.root(), scene.store.app());
    for arguments in [
        ["undo", text(&root)].as_slice(),
        &["fix", "--with", "ldcache", "--no-sync", "--store", text(&root), text(&root)],
    ] {
        let ran = run(&mut scene.store.becalm(arguments));
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
    assert!(app.exists());
    assert_eq!(scene.sources(&[], ""), ["runpath"], "another store");
    assert_eq!(scene.sources(&["--reads", "ldcache"], ""), ["package-cache"]);
}

#[test]
fn a_trace_is_held_against_what_the_loader_of_the_program_reads() {
    if nothing_to_test_with() {
        return;
    }
    // This loader reads nothing: if it is taken to read notes, the prediction is wrong.
    let scene = Scene::new(Some("@"));
    assert!(!scene.is_as_predicted(&[], ""), "its file was not looked at");
    assert!(scene.is_as_predicted(&["--reads", "none"], ""));
    assert!(scene.is_as_predicted(&[], "glibc.rtld.resolution=0"));
    let scene = Scene::new(None);
    assert!(scene.is_as_predicted(&[], ""));
    let store = scene.store.root();
    assert!(!scene.is_as_predicted(&["--reads", "note", "--store", text(&store)], ""));
}
