//! The waits for pages of a start: `becalm trace` and `becalm report` name the files, a warm start has none, and
//! a kernel that reports no page faults does not keep a program from starting.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use becalm_testing::skip;
use serde_json::Value;
use support::cold::{evict, is_evicted, kept};
use support::store::json;
use support::{Ran, becalm, cc, no_compiler, run, wait_for};

/// Touches a page of the file that it is given; as a library, before the entry point of the program.
const TOUCHES: &str = "
#include <fcntl.h>
#include <sys/mman.h>
#ifdef LIBRARY
__attribute__((constructor)) int touch(int n, char **a) {
#else
int main(int n, char **a) {
#endif
    volatile char *map = mmap(0, 1 << 20, PROT_READ, MAP_PRIVATE, open(a[1], O_RDONLY), 0);
    madvise((void *)map, 1 << 20, MADV_RANDOM);
    return map[4096 * 5] != 7;
}";

/// A program, and the file that it touches.
struct Scene {
    dir: tempfile::TempDir,
    data: PathBuf,
}

impl Scene {
    /// `None` if a file cannot be made that is not in memory, or if there is no compiler.
    fn new() -> Option<Self> {
        if no_compiler() {
            return None;
        }
        let dir = tempfile::tempdir().expect("a scratch directory");
        fs::write(dir.path().join("touch.c"), TOUCHES).expect("written");
        fs::write(dir.path().join("filter.c"), becalm_testing::FILTER).expect("written");
        cc(dir.path(), &["touch.c", "-o", "touch"]);
        cc(dir.path(), &["filter.c", "-o", "filter"]);
        let data = dir.path().join("data");
        fs::write(&data, vec![7; 1 << 20]).expect("written");
        is_evicted(&data).then_some(Scene { dir, data })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Traces the program; returns the document and what becalm wrote.
    fn trace(&self, flags: &[&str]) -> Ran {
        run(becalm().arg("trace").args(flags).arg("--").arg(self.path("touch")).arg(&self.data))
    }
}

/// Returns the waits for a file in an image; `None` if the kernel reports no page faults.
fn waits(image: &Value, file: &Path) -> Option<u64> {
    let pages = &image["pages"];
    if pages.is_null() {
        skip("the kernel reports no page faults here (perf_event_open)");
        return None;
    }
    let files = pages["files"].as_array().expect("files");
    let named = files.iter().find(|seen| seen["path"].as_str() == file.to_str());
    Some(named.map_or(0, |seen| {
        assert!(seen["seconds"].as_f64() > Some(0.0), "{seen}");
        seen["waits"].as_u64().expect("a number")
    }))
}

#[test]
fn a_trace_names_the_file_that_a_start_waits_for_and_a_warm_start_has_none() {
    let Some(scene) = Scene::new() else { return };
    let report = json(&scene.trace(&["--json", "--relocations"]));
    let image = &report["images"][0];
    let Some(waits_of_data) = waits(image, &scene.data) else { return };
    assert_eq!(waits_of_data, 1, "{}", image["pages"]);
    assert!(image["pages"]["seconds"].as_f64() > Some(0.0), "{}", image["pages"]);

    evict(&scene.data);
    let ran = scene.trace(&[]);
    assert!(ran.stderr.contains("  pages    waited "), "{}", ran.stderr);
    // Another process may drop the caches meanwhile.
    let warm = (0..20).map(|_| scene.trace(&[])).find(|ran| !ran.stderr.contains("waited"));
    assert_eq!(warm.map(|ran| ran.code), Some(Some(0)));
}

#[test]
fn the_page_of_a_start_has_the_files_that_it_waited_for() {
    let Some(scene) = Scene::new() else { return };
    let page = || {
        let file = scene.path("page.html");
        let mut command = becalm();
        command.arg("report").arg(scene.path("touch")).arg("-o").arg(&file);
        let ran = run(command.arg("--").arg(&scene.data));
        assert_eq!(ran.code, Some(0), "{ran:?}");
        fs::read_to_string(file).expect("a page")
    };
    let text = page();
    if text.contains("(perf_event_open") {
        return skip("the kernel reports no page faults here (perf_event_open)");
    }
    assert!(text.contains(" waiting for ") && text.contains("first start "), "{text}");
    let row = format!("<span class=\"path\">{}</span>", scene.data.display());
    assert!(text.contains(&row), "no row of the file");
    assert!((0..20).any(|_| !page().contains(" waiting for ")), "a warm start waits for nothing");
}

#[test]
fn a_kernel_that_reports_no_page_faults_is_named_and_nothing_fails() {
    let Some(scene) = Scene::new() else { return };
    let trace = |flags: &[&str]| {
        let mut command = Command::new(scene.path("filter"));
        command.arg("perf_event_open").arg(becalm().get_program()).arg("trace").args(flags);
        run(command.arg("--").arg(scene.path("touch")).arg(&scene.data))
    };
    let report = json(&trace(&["--json"]));
    assert!(report["images"][0]["pages"].is_null());
    let notes = report["notes"].as_array().expect("notes");
    let note = notes.iter().filter_map(Value::as_str).find(|note| note.contains("perf_event_open"));
    let note = note.expect("the refusal is named");
    assert!(note.contains("Operation not permitted") && !note.starts_with("0 "), "{note}");
    let warm = (0..20).map(|_| trace(&[])).find(|ran| !ran.stderr.contains("perf_event_open"));
    assert_eq!(warm.map(|ran| ran.code), Some(Some(0)));
}

#[test]
fn starts_that_time_the_relocation_bring_nothing_into_memory_before_the_traced_start() {
    let Some(scene) = Scene::new() else { return };
    let library = scene.path("libtouch.so");
    fs::write(scene.path("early.c"), "int main(void) { return 0; }").expect("written");
    cc(scene.dir.path(), &["-DLIBRARY", "-shared", "-fPIC", "touch.c", "-o", "libtouch.so"]);
    let library = library.to_str().expect("UTF-8");
    cc(scene.dir.path(), &["early.c", "-Wl,--no-as-needed", library, "-o", "early"]);
    let mut command = becalm();
    command.args(["trace", "--json", "--relocations", "--"]).arg(scene.path("early"));
    let report = json(&run(command.arg(&scene.data)));
    let image = &report["images"][0];
    assert!(image["relocations"].is_object(), "{image}");
    let Some(waits) = waits(image, &scene.data) else { return };
    assert_eq!(waits, 1, "{}", image["pages"]);
}

/// Starts the program until becalm has a record of its pages with those of the file. The process that
/// records may miss them in the first start, which has no index to wait for its last look.
fn learn(scene: &Scene, home: &Path) {
    let files = |ending: &str| kept(home, ending);
    let data = scene.data.to_string_lossy();
    let has_data =
        |record: &PathBuf| fs::read_to_string(record).is_ok_and(|it| it.contains(&*data));
    for _ in 0..8 {
        let mut command = becalm();
        command.env("HOME", home).env_remove("XDG_CACHE_HOME").args(["run", "--"]);
        assert_eq!(run(command.arg(scene.path("touch")).arg(&scene.data)).code, Some(0));
        wait_for("the learner", || files("lock").is_empty() && !files(".so").is_empty());
        if files("pages").iter().any(has_data) {
            return;
        }
    }
    panic!("no record of the file: {:?}", files(""));
}

#[test]
fn a_cold_measurement_has_the_waits_of_a_cold_start_and_a_warm_one_has_none() {
    let Some(scene) = Scene::new() else { return };
    let is_root = rustix::process::geteuid().is_root();
    if is_root && run(Command::new("unshare").args(["--mount", "true"])).code != Some(0) {
        return skip("no mount namespace can be made here");
    }
    let home = scene.path("home");
    fs::create_dir(&home).expect("made");
    learn(&scene, &home);
    let bench = |flags: &[&str]| {
        // The caches of the machine stay, so that the pages of the recorded files alone are dropped.
        let guard = "mount -o bind,ro /proc/sys/vm /proc/sys/vm && exec \"$@\"";
        let mut command = becalm();
        if is_root {
            let becalm = std::mem::replace(&mut command, Command::new("unshare"));
            command.args(["--mount", "sh", "-c", guard, "sh"]).arg(becalm.get_program());
        }
        command.env("HOME", &home).env_remove("XDG_CACHE_HOME");
        command.args(["bench", "--rounds", "1", "--json"]).args(flags).arg(scene.path("touch"));
        run(command.arg("--").arg(&scene.data))
    };
    let watched = |ran: &Ran| json(ran)["variants"][0]["watched"].clone();
    let cold = watched(&bench(&["--cold"]));
    let Some(waits) = waits(&cold, &scene.data) else { return };
    assert_eq!(waits, 1, "{cold}");
    assert!(watched(&bench(&[]))["pages"].is_null());
}
