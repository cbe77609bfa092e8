//! Libraries that a program opens at run time: `becalm trace` and `becalm report` name the object
//! that needed each name, and the directories where it was searched.

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use becalm_testing::skip;
use serde_json::Value;
use support::{Ran, becalm, cc, cc_library, no_compiler, run};

/// A program that opens `ext.so` by its path. That library needs `libfar.so`, in the third
/// directory of its run path; `ext.so`'s other name needs a library that does not exist.
struct Plugins {
    dir: tempfile::TempDir,
}

impl Plugins {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a scratch directory");
        let at = dir.path();
        for sub in ["a", "b", "far"] {
            fs::create_dir(at.join(sub)).expect("made");
        }
        let source = |name: &str, text: &str| fs::write(at.join(name), text).expect("written");
        source("far.c", "int far(void) { return 1; }\n");
        source("ext.c", "int far(void); int ext(void) { return far(); }\n");
        source(
            "app.c",
            "#include <dlfcn.h>\n\
             int main(int n, char **v) { for (int i = 1; i < n; i++) dlopen(v[i], RTLD_NOW); }\n",
        );
        let run_path = ["a", "b", "far"].map(|sub| name(&at.join(sub)).to_owned()).join(":");
        let run_path = format!("-Wl,--enable-new-dtags,-rpath,{run_path}");
        cc_library(at, "far.c", "far/libfar.so", &[]);
        cc_library(at, "far.c", "libgone.so", &[]);
        cc_library(at, "ext.c", "ext.so", &["-Lfar", "-lfar", &run_path]);
        cc_library(at, "ext.c", "bad.so", &["-L.", "-lgone", &run_path]);
        fs::remove_file(at.join("libgone.so")).expect("removed");
        cc(at, &["-o", "app", "app.c", "-ldl"]);
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The command line that opens both.
    fn command(&self) -> [String; 3] {
        ["app", "ext.so", "bad.so"].map(|file| name(&self.path(file)).to_owned())
    }

    /// Returns a trace's report and its last image; `None` if nothing can be traced.
    fn traced(&self, record: &Path) -> Option<Value> {
        let command = self.command();
        let mut trace = becalm();
        trace.args(["trace", "--json", "-o", name(record), "--"]).args(&command);
        let ran = run(&mut trace);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let report: Value =
            serde_json::from_slice(&fs::read(record).expect("a report")).expect("JSON");
        if report["opens_alone"] == true {
            skip("no program can be traced here");
            return None;
        }
        report["images"].as_array().and_then(|images| images.last()).cloned()
    }
}

fn name(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Opens and stats of a row.
fn misses(row: &Value) -> u64 {
    row["opens"].as_u64().expect("a count") + row["stats"].as_u64().expect("a count")
}

#[test]
fn misses_of_dlopen_are_charged_to_directories_names_and_objects() {
    if no_compiler() {
        return;
    }
    let plugins = Plugins::new();
    let Some(image) = plugins.traced(&plugins.path("run.json")) else { return };
    let dlopen = &image["dlopen"];
    let row = |list: &str, row_name: &str| {
        let rows = dlopen[list].as_array().expect("rows");
        let found = rows.iter().find(|row| row["name"] == row_name);
        found.unwrap_or_else(|| panic!("no {row_name}: {dlopen}")).clone()
    };
    let (far, gone) = (row("needed", "libfar.so"), row("needed", "libgone.so"));
    assert_eq!((&far["found"], &gone["found"]), (&Value::from(true), &Value::from(false)));
    let [ext, bad] = ["ext.so", "bad.so"].map(|file| row("objects", name(&plugins.path(file))));
    assert_eq!((misses(&ext), misses(&bad)), (misses(&far), misses(&gone)));
    assert!(misses(&row("directories", name(&plugins.path("a")))) >= 2);
    let missed = &dlopen["missed"];
    assert_eq!(misses(&far) + misses(&gone), misses(missed));
    assert_eq!(dlopen["found_misses"].as_u64(), Some(misses(&far)));
}

#[test]
fn the_screen_names_what_dlopen_searched_within_its_lines() {
    if no_compiler() {
        return;
    }
    let plugins = Plugins::new();
    let ran: Ran = run(becalm().args(["trace", "--"]).args(plugins.command()));
    if ran.stderr.contains("opens alone") || !ran.stderr.contains("tracer") {
        skip("no program can be traced here");
        return;
    }
    for part in [
        "dlopen: worst directories",
        "libfar.so",
        "libgone.so (not found)",
        "dlopen: worst objects",
    ] {
        assert!(ran.stderr.contains(part), "no {part:?}: {}", ran.stderr);
    }
    assert!(ran.stderr.lines().count() <= 31, "more than a screen: {}", ran.stderr);
}

#[test]
fn the_page_draws_what_is_opened_at_run_time() {
    if no_compiler() {
        return;
    }
    let plugins = Plugins::new();
    let record = plugins.path("run.json");
    let Some(image) = plugins.traced(&record) else { return };
    let page = plugins.path("page.html");
    let ran = run(becalm().args(["report", name(&record), "-o", name(&page)]));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let page = fs::read_to_string(page).expect("a page");
    let shown = format!("before.dlopen_misses\">{}<", misses(&image["dlopen"]["missed"]));
    for part in ["What is opened at run time", "libgone.so", &shown, "before.dlopen_ms"] {
        assert!(page.contains(part), "no {part:?}");
    }
    assert!(!page.contains("which no strategy changes"));
}
