//! A small store for the tests of `becalm fix`: a program, a library that it needs, and a library
//! that both need.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use becalm_core::strategy::Strategy;
use becalm_core::strategy::row::Unit;
use serde_json::Value;

use super::{Ran, becalm, cc, cc_library, run};

/// A store with a package for each of `libone.so`, `libtwo.so` (which needs the first) and
/// `app`, which prints what both say. Every run path has directories without a library first.
pub struct Store {
    pub dir: tempfile::TempDir,
}

/// The library that needs nothing, and the one that needs it.
const ONE: &str = "aaa-one/lib/libone.so";
const TWO: &str = "bbb-two/lib/libtwo.so";

/// Every strategy that changes files, with the arguments of `becalm fix --with` for each way to plan
/// it.
pub fn strategies() -> impl Iterator<Item = (Strategy, Vec<&'static str>)> {
    let of = |strategy: Strategy| {
        let ways: &[&[&str]] = match strategy.row().unit {
            Unit::Stores => &[],
            Unit::Start(_) => &[&[], &["--resolve", "loader"]],
            Unit::ObjectOrClosure(..) => &[&[], &["--closure"]],
            _ => &[&[]],
        };
        let name: &str = strategy.to_string().leak();
        ways.iter().map(move |way| (strategy, [&[name], *way].concat()))
    };
    Strategy::ALL.iter().copied().flat_map(of)
}

impl Store {
    /// Makes a store with so many empty directories that a farm saves more than it costs.
    pub fn new() -> Self {
        Self::with(24)
    }

    /// Makes a store with that many empty directories before that of a package in each run path.
    pub fn with(empty: usize) -> Self {
        let app = "int one(void); int two(void);\n\
                   int main(void) { printf(\"%d %d\\n\", one(), two()); return 0; }\n";
        Self::linked("--enable-new-dtags", empty, app, &[TWO, ONE])
    }

    /// Makes a store that is linked with `DT_RPATH`. Its program needs `libtwo.so` alone, which has
    /// no run path: `libone.so` is searched for it along the `DT_RPATH` of the program.
    pub fn of_rpath() -> Self {
        let app = "int two(void);\n\
                   int main(void) { printf(\"%d %d\\n\", two() - 1, two()); return 0; }\n";
        Self::linked("--disable-new-dtags", 24, app, &[TWO])
    }

    fn linked(tags: &str, empty: usize, app: &str, needed: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a scratch directory");
        let root = dir.path().canonicalize().expect("is there").join("store");
        for sub in ["aaa-one/lib", "bbb-two/lib", "ccc-app/bin", "ddd-none/lib"] {
            fs::create_dir_all(root.join(sub)).expect("made");
        }
        let write = |name: &str, text: &str| fs::write(root.join(name), text).expect("written");
        write("one.c", "int one(void) { return 1; }\n");
        write("two.c", "int one(void); int two(void) { return one() + 1; }\n");
        write("app.c", &format!("#include <stdio.h>\n{app}"));
        let mut dirs: Vec<String> = (0..empty).map(|at| format!("ddd-none/{at}")).collect();
        for dir in &dirs {
            fs::create_dir(root.join(dir)).expect("made");
        }
        dirs.extend(["ddd-none/lib", "bbb-two/lib", "aaa-one/lib"].map(String::from));
        let dirs: Vec<String> =
            dirs.iter().map(|dir| format!("{}/{dir}", root.display())).collect();
        let path = format!("-Wl,{tags},-rpath,{}", dirs.join(":"));
        let library = |source: &str, out: &str, more: &[&str]| {
            cc_library(&root, source, out, &[&["-Wl,--no-as-needed"], more].concat());
        };
        library("one.c", ONE, &[&path]);
        let of_two = [path.as_str(), ONE];
        library("two.c", TWO, if needed.contains(&ONE) { &of_two } else { &of_two[1..] });
        let app = ["app.c", "-o", "ccc-app/bin/app", "-Wl,--no-as-needed", path.as_str()];
        cc(&root, &[&app[..], needed].concat());
        for source in ["one.c", "two.c", "app.c"] {
            fs::remove_file(root.join(source)).expect("removed");
        }
        Self { dir }
    }

    pub fn root(&self) -> PathBuf {
        self.dir.path().canonicalize().expect("is there").join("store")
    }

    pub fn app(&self) -> PathBuf {
        self.root().join("ccc-app/bin/app")
    }

    pub fn two(&self) -> PathBuf {
        self.root().join(TWO)
    }

    pub fn one(&self) -> PathBuf {
        self.root().join(ONE)
    }

    /// Every path below the store, with what it holds.
    pub fn content(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut all = BTreeMap::new();
        content_of(&self.root(), &mut all);
        all
    }

    /// Runs a command of becalm's on the whole store.
    pub fn becalm(&self, arguments: &[&str]) -> Ran {
        self.on(arguments, &self.root())
    }

    pub fn on(&self, arguments: &[&str], path: &Path) -> Ran {
        let mut command = becalm();
        command.args(arguments);
        if arguments[0] != "undo" {
            command.arg("--store").arg(self.root());
        }
        run(command.arg(path))
    }

    pub fn prints(&self) -> String {
        let output = Command::new(self.app()).output().expect("starts");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    pub fn misses(&self) -> u64 {
        let ran = self.on(&["check", "--json"], &self.app());
        let json: Value = serde_json::from_str(&ran.stdout).expect("JSON");
        let storm = &json["programs"][0]["storm"];
        storm["missed_opens"].as_u64().unwrap() + storm["missed_stats"].as_u64().unwrap()
    }
}

pub fn content_of(dir: &Path, all: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        let about = path.symlink_metadata().expect("is there");
        if about.is_dir() {
            all.insert(path.clone(), Vec::new());
            content_of(&path, all);
        } else if about.is_symlink() {
            let target = path.read_link().expect("a link");
            all.insert(path, target.to_str().expect("UTF-8").as_bytes().to_vec());
        } else {
            let bytes = fs::read(&path).expect("readable");
            all.insert(path, bytes);
        }
    }
}
