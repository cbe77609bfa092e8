//! `becalm run` without an index of the user: lookups of libraries that Python opens at run time
//! are answered too.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::{becalm, cc, cc_library, run, wait_for};

/// A virtual environment whose "Python" opens the extension it is given. The extension needs
/// `libx.so`, in the second directory of its run path.
struct Environment {
    dir: tempfile::TempDir,
}

impl Environment {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a scratch directory");
        let environment = Self { dir };
        let at = |name: &str| environment.path(name);
        for made in ["venv/bin", "home", "venv/lib/python3.9/site-packages/a"] {
            fs::create_dir_all(at(made)).expect("made");
        }
        fs::create_dir(at("venv/lib/python3.9/site-packages/b")).expect("made");
        fs::write(at("venv/pyvenv.cfg"), "home = /usr/bin\n").expect("written");
        fs::write(at("x.c"), "int x(void) { return 7; }\n").expect("written");
        fs::write(at("ext.c"), "int x(void); int ext(void) { return x(); }\n").expect("written");
        let open = "#include <dlfcn.h>\n\
                    int main(int n, char **v)\n\
                    { void *l = dlopen(v[1], RTLD_NOW);\n\
                      return l ? ((int (*)(void)) dlsym(l, \"ext\"))() : 1; }\n";
        fs::write(at("python.c"), open).expect("written");
        let packages = at("venv/lib/python3.9/site-packages");
        let (x, ext) = (packages.join("b/libx.so"), environment.extension());
        let place = environment.dir.path();
        cc_library(place, "x.c", text(&x), &[]);
        let run_path = format!("-Wl,-rpath,{0}/a:{0}/b", text(&packages));
        cc_library(place, "ext.c", text(&ext), &[text(&x), &run_path]);
        cc(place, &["python.c", "-o", "venv/bin/python3", "-ldl"]);
        environment
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn extension(&self) -> PathBuf {
        self.path("venv/lib/python3.9/site-packages/ext.so")
    }

    /// Opens the extension under `becalm run` and returns the module's answers.
    fn answers(&self) -> String {
        let log = self.path("log");
        let _ = fs::remove_file(&log);
        let mut command: Command = becalm();
        command.args(["run", "--strict", "--"]).arg(self.path("venv/bin/python3"));
        command.arg(self.extension()).env("HOME", self.path("home"));
        command.env_remove("XDG_CACHE_HOME").env_remove("XDG_DATA_HOME");
        let ran = run(command.env("BECALM", format!("log:{}", text(&log))));
        assert_eq!(ran.code, Some(7), "{ran:?}");
        fs::read_to_string(log).unwrap_or_default()
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// The path that a log has for `libx.so`, empty for none.
fn answer(log: &str) -> &str {
    let fields = log.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let of_name = fields.filter(|fields| fields.get(4) == Some(&"libx.so"));
    of_name.filter_map(|fields| fields.get(5).copied()).next().unwrap_or_default()
}

#[test]
fn an_index_of_an_environment_answers_for_the_python_it_was_made_from() {
    if support::store::nothing_to_test_with() {
        return;
    }
    let environment = Environment::new();
    let (at, dir) = (|name: &str| environment.path(name), environment.dir.path());
    // The Python has a library of its own, and extension modules in its prefix.
    for made in ["base/bin", "base/lib/python3.9/lib-dynload/a", "base/lib/python3.9/lib-dynload/b"]
    {
        fs::create_dir_all(at(made)).expect("made");
    }
    let modules = at("base/lib/python3.9/lib-dynload");
    let (x, ext) = (modules.join("b/libx.so"), modules.join("ext.so"));
    cc_library(dir, "x.c", text(&x), &[]);
    let run_path = format!("-Wl,-rpath,{0}/a:{0}/b", text(&modules));
    cc_library(dir, "ext.c", text(&ext), &[text(&x), &run_path]);
    let own = at("base/lib/libpython.so");
    cc_library(dir, "x.c", text(&own), &[]);
    let run_path = format!("-Wl,-rpath,{0}/lib/python3.9:{0}/lib", text(&at("base")));
    let python = at("base/bin/python3");
    let needed = [text(&own), "-Wl,--no-as-needed", &run_path, "-ldl"];
    cc(dir, &[&["python.c", "-o", text(&python), "-Wl,--no-as-needed"], &needed[..]].concat());
    fs::write(at("venv/pyvenv.cfg"), format!("home = {}\n", text(&at("base/bin"))))
        .expect("written");
    support::store::let_the_clock_pass();
    let (index, venv) = (at("venv.so"), at("venv"));
    let becalm = |arguments: &[&str]| {
        let mut command = becalm();
        command.args(arguments).env("HOME", at("home"));
        command.env_remove("XDG_CACHE_HOME").env_remove("XDG_DATA_HOME");
        command
    };
    let answers = || {
        let log = at("log");
        let _ = fs::remove_file(&log);
        let start = ["run", "--index", text(&index), "--", text(&python), text(&ext)];
        let ran = run(becalm(&start).env("BECALM", format!("log:{}", text(&log))));
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(7), ""), "{ran:?}");
        fs::read_to_string(log).unwrap_or_default()
    };
    let made = run(&mut becalm(&["index", text(&venv), "-o", text(&index)]));
    assert_eq!(made.code, Some(0), "{made:?}");
    let log = answers();
    assert_eq!(answer(&log), text(&x), "{log}");
    assert!(log.contains(text(&own)), "{log}");
    // An update keeps them.
    fs::create_dir(venv.join("lib/python3.9/site-packages/new")).expect("made");
    support::store::let_the_clock_pass();
    let made = run(&mut becalm(&["index", "--update", "-o", text(&index), "--json"]));
    assert!(made.code == Some(0) && made.stdout.contains("\"written\":true"), "{made:?}");
    let log = answers();
    assert!(answer(&log) == text(&x) && log.contains(text(&own)), "{log}");
}

#[test]
fn what_a_python_opens_at_run_time_is_answered_and_after_an_installation_the_index_is_renewed() {
    if support::store::nothing_to_test_with() {
        return;
    }
    let environment = Environment::new();
    support::store::let_the_clock_pass();
    let packages = environment.path("venv/lib/python3.9/site-packages");
    assert_eq!(answer(&environment.answers()), text(&packages.join("b/libx.so")));
    let kept = || {
        let kept = environment.path("home/.cache/becalm/programs").read_dir().expect("a cache");
        let files = kept.flatten().map(|entry| entry.path());
        let mut indexes = files.filter(|path| path.extension().is_some_and(|end| end == "so"));
        let index = indexes.next().expect("an index");
        assert_eq!(indexes.next(), None);
        index.metadata().and_then(|facts| facts.modified()).expect("a time")
    };
    let before = kept();
    fs::create_dir(packages.join("another")).expect("made");
    support::store::let_the_clock_pass();
    // This start is answered by the index that is there.
    assert_eq!(answer(&environment.answers()), text(&packages.join("b/libx.so")));
    wait_for("a comparison", || kept() != before);
    assert_eq!(answer(&environment.answers()), text(&packages.join("b/libx.so")));
}
