//! A small store for the tests of indexes, and runs of becalm on it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use becalm_testing::skipped;
use serde_json::Value;

use super::{Ran, becalm, cc, cc_library, no_compiler, run};

/// A store of three packages: `app` in the first searches the two others for `libone.so` and
/// `libtwo.so`, in the wrong order, and prints their texts.
pub struct Store {
    pub dir: tempfile::TempDir,
    pub packages: [&'static str; 3],
}

/// Packages named as those of Nix and Guix.
pub const FLAT: [&str; 3] = [
    "abcdfghijklmnpqrsvwxyz0123456789-app-1",
    "0123456789abcdfghijklmnpqrsvwxyz-one-1",
    "3456789abcdfghijklmnpqrsvwxyz012-two-1",
];
/// Packages deeper down, as in module trees.
pub const NESTED: [&str; 3] = ["gcc/app/1", "gcc/one/1", "gcc/two/1"];

impl Store {
    pub fn new() -> Self {
        Self::of(FLAT)
    }

    pub fn of(packages: [&'static str; 3]) -> Self {
        let dir = tempfile::tempdir().expect("a scratch directory");
        let store = Self { dir, packages };
        let [app, one, two] = packages;
        for (package, sub) in [(app, "bin"), (one, "lib"), (two, "lib")] {
            fs::create_dir_all(store.root().join(package).join(sub)).expect("made");
        }
        fs::create_dir(store.path("other")).expect("made");
        store.source("one.c", "const char *one(void) { return \"one\"; }\n");
        store.source("two.c", "const char *two(void) { return \"two\"; }\n");
        store.source("mine.c", "const char *one(void) { return \"mine\"; }\n");
        store.source(
            "app.c",
            "#include <stdio.h>\n\
             const char *one(void); const char *two(void);\n\
             int main(int argc, char **argv)\n\
             { printf(\"%s %s\\n\", one(), two()); return argc > 1 ? 37 : 0; }\n",
        );
        store.library("one.c", &store.one("libone.so"));
        store.library("two.c", &store.two("libtwo.so"));
        store.library("mine.c", &store.path("other/libone.so"));
        let root = store.root();
        let run_path = format!(
            "-Wl,--enable-new-dtags,-rpath,{root}/{two}/lib:{root}/{one}/lib",
            root = text(&root)
        );
        let (one, two) = (store.one("libone.so"), store.two("libtwo.so"));
        let app = store.app();
        cc(
            store.dir.path(),
            &["app.c", "-o", text(&app), &run_path, "-Wl,--no-as-needed", text(&one), text(&two)],
        );
        store
    }

    /// Makes a store whose index has no answer from outside: its objects do not need the C library,
    /// and its loader is a copy that looks for a loader cache that does not exist.
    pub fn isolated() -> Self {
        const CACHE: &[u8] = b"/etc/ld.so.cache\0";
        let store = Self::new();
        let bytes = fs::read(store.app()).expect("read");
        let view = becalm_core::elf::parse(bytes.as_slice()).expect("an object");
        let usual = view.interpreter.expect("a loader").to_string();
        let mut loader = fs::read(&usual).expect("read");
        let found: Vec<usize> =
            (0..loader.len()).filter(|&at| loader[at..].starts_with(CACHE)).collect();
        assert!(!found.is_empty(), "{usual} has no {}", CACHE.escape_ascii());
        found.into_iter().for_each(|at| loader[at..at + 4].copy_from_slice(b"/non"));
        let copy = store.path("ld.so");
        fs::copy(&usual, &copy).expect("copied");
        fs::write(&copy, loader).expect("written");
        let bare = ["-nostdlib", "-fPIC"];
        let (one, two) = (store.one("libone.so"), store.two("libtwo.so"));
        for (source, library) in [("one.c", &one), ("two.c", &two)] {
            cc_library(store.dir.path(), source, text(library), &["-nostdlib"]);
        }
        store.source(
            "bare.c",
            "const char *one(void); const char *two(void);\n\
             void _start(void) { one(); two(); for (;;) ; }\n",
        );
        let dirs = [&two, &one].map(|path| text(path.parent().expect("a folder")).to_owned());
        let run_path = format!("-Wl,--enable-new-dtags,-rpath,{}", dirs.join(":"));
        let named = format!("-Wl,--dynamic-linker={}", text(&copy));
        let app = store.app();
        let made = ["bare.c", "-o", text(&app), &run_path, &named, "-Wl,--no-as-needed"];
        cc(store.dir.path(), &[&bare[..], &made, &[text(&one), text(&two)]].concat());
        store
    }

    /// Returns a path in the scratch directory without links, as the kernel names it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().expect("is there").join(name)
    }

    pub fn root(&self) -> PathBuf {
        self.path("store")
    }

    pub fn app(&self) -> PathBuf {
        self.root().join(self.packages[0]).join("bin/app")
    }

    /// A library of the second package.
    pub fn one(&self, name: &str) -> PathBuf {
        self.root().join(self.packages[1]).join("lib").join(name)
    }

    /// A library of the third package, which is searched first.
    pub fn two(&self, name: &str) -> PathBuf {
        self.root().join(self.packages[2]).join("lib").join(name)
    }

    pub fn source(&self, name: &str, source: &str) {
        fs::write(self.path(name), source).expect("written");
    }

    pub fn library(&self, source: &str, to: &Path) {
        cc_library(self.dir.path(), source, text(to), &[]);
    }

    /// Makes `libmany.so` with a table of all of its 30,000 functions. The start of a
    /// program with it looks up each of them, which takes most of its time.
    pub fn heavy_library(&self) {
        let all = |text: fn(usize) -> String| (0..30_000).map(text).collect::<String>();
        let functions = all(|at| format!(".globl f{at}\n.type f{at}, %function\nf{at}: ret\n"));
        let table = all(|at| format!(".quad f{at}\n"));
        let stack = ".section .note.GNU-stack,\"\",%progbits\n";
        let text = format!(".text\n{functions}.data\n.globl table\ntable:\n{table}{stack}");
        self.source("many.s", &text);
        cc_library(&self.path(""), "many.s", "libmany.so", &[]);
    }

    pub fn index(&self) -> PathBuf {
        self.path("index.so")
    }

    /// Returns a `becalm` command with its own home directory.
    pub fn becalm(&self, arguments: &[&str]) -> Command {
        let mut command = becalm();
        command.env("HOME", self.path("home")).args(arguments);
        for variable in ["XDG_DATA_HOME", "XDG_CACHE_HOME", "GLIBC_TUNABLES", "BECALM"] {
            command.env_remove(variable);
        }
        command
    }

    /// Makes directories of a module tree, and returns them as modules would list them.
    pub fn module_dirs(&self, count: usize) -> String {
        let made: Vec<PathBuf> = (0..count).map(|n| self.path(&format!("apps/m{n}/lib"))).collect();
        made.iter().for_each(|dir| fs::create_dir_all(dir).expect("made"));
        let_the_clock_pass();
        made.iter().map(|dir| text(dir)).collect::<Vec<_>>().join(":")
    }

    /// Runs `becalm` with an `LD_LIBRARY_PATH`.
    pub fn with_library_path(&self, arguments: &[&str], list: &str) -> Ran {
        run(self.becalm(arguments).env("LD_LIBRARY_PATH", list))
    }

    pub fn make_index(&self, more: &[&str]) -> Value {
        let (root, index) = (self.root(), self.index());
        let mut arguments = vec!["index", text(&root), "-o", text(&index), "--json"];
        arguments.extend(more);
        json(&run(&mut self.becalm(&arguments)))
    }

    /// Returns a command that runs the app with the index.
    pub fn calmed(&self) -> Command {
        let (index, app) = (self.index(), self.app());
        self.becalm(&["run", "--index", text(&index), "--", text(&app)])
    }

    /// Returns the module's log line about one of its parts (`bindings`, `paths`) at a start that
    /// prints `printed`; `nothing` if it logs nothing about it.
    pub fn logged(&self, part: &str, printed: &str, arguments: &[&str]) -> String {
        let log = self.path("log");
        let _ = std::fs::remove_file(&log);
        let mut command = self.becalm(arguments);
        let ran = run(command.env("BECALM", format!("log:{}", log.display())));
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), printed), "{ran:?}");
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        let part = format!("\t{part}\t0\t");
        let line = said.lines().find_map(|line| Some(line.split_once(&part)?.1));
        line.unwrap_or("nothing").to_owned()
    }

    /// Counts the failing opens of the app's loader, with or without the index.
    pub fn missed_opens(&self, calmed: bool, library_path: Option<&str>) -> u64 {
        let (index, app, out) = (self.index(), self.app(), self.path("trace.json"));
        let us = env!("CARGO_BIN_EXE_becalm");
        let mut arguments = vec!["trace", "--json", "-o", text(&out), "--"];
        if calmed {
            arguments.extend([us, "run", "--index", text(&index), "--"]);
        }
        arguments.push(text(&app));
        let mut command = self.becalm(&arguments);
        if let Some(list) = library_path {
            command.env("LD_LIBRARY_PATH", list);
        }
        let ran = run(&mut command);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let report: Value =
            serde_json::from_str(&fs::read_to_string(&out).expect("a report")).expect("JSON");
        let last = report["images"].as_array().and_then(|images| images.last()).expect("images");
        assert!(last["file"].as_str().expect("a path").ends_with("bin/app"), "{last}");
        last["storm"]["missed_opens"].as_u64().expect("a count")
    }
}

pub fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

pub fn json(ran: &Ran) -> Value {
    assert_eq!(ran.code, Some(0), "{ran:?}");
    serde_json::from_str(&ran.stdout).expect("JSON")
}

/// True if this machine's programs have no loader with audit modules.
pub fn no_glibc() -> bool {
    let found = becalm().args(["check", "--json", "/bin/sh"]).output().expect("runs");
    let is_glibc = String::from_utf8_lossy(&found.stdout).contains("\"libc\":\"glibc-");
    !is_glibc && skipped("no glibc here")
}

pub fn nothing_to_test_with() -> bool {
    no_compiler() || no_glibc()
}

/// Waits longer than the granularity of the file system's clock.
pub fn let_the_clock_pass() {
    std::thread::sleep(std::time::Duration::from_millis(400));
}
