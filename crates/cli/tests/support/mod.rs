//! Helpers of the end-to-end tests: running becalm with a deadline, fixtures made by the C
//! compiler, golden files.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part")]

pub mod chain;
pub mod cold;
pub mod packs;
pub mod store;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use becalm_testing::skipped;

/// Longer than any check here takes; beyond it becalm hangs.
const DEADLINE: Duration = Duration::from_secs(60);

/// Returns a becalm command without the environment of the tests.
pub fn becalm() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_becalm"));
    for variable in ["LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT", "NO_COLOR", "CLICOLOR_FORCE"] {
        command.env_remove(variable);
    }
    command.env_remove("MODULEPATH");
    command.stdin(Stdio::null());
    command
}

/// Result of a run of `becalm check`.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// Runs `becalm check` to its end.
pub fn check<S: AsRef<std::ffi::OsStr>>(arguments: &[S]) -> Ran {
    run(becalm().arg("check").args(arguments))
}

/// Runs a command to its end; panics if it takes too long.
pub fn run(command: &mut Command) -> Ran {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    let output = finish(child);
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

/// True if a program is not in `PATH`: the test is skipped.
pub fn is_missing(program: &str, package: &str) -> bool {
    let is_there = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()));
    !is_there && skipped(&format!("no {program} (Debian: {package})"))
}

/// Asserts exit code 2, nothing on stdout, and one line on stderr that contains the words.
pub fn assert_refused(ran: &Ran, words: &str) {
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
    assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
    assert!(ran.stderr.starts_with("becalm: ") && ran.stderr.contains(words), "{ran:?}");
}

/// Waits for something that another process does.
pub fn wait_for(what: &str, mut is_there: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_there() {
        assert!(began.elapsed() < DEADLINE, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Starts twenty commands at once, made from their numbers, and returns the outputs.
pub fn twenty(command: impl Fn(usize) -> Command) -> Vec<Output> {
    let start = |number| {
        let mut command = command(number);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts")
    };
    let children: Vec<Child> = (0..20).map(start).collect();
    children.into_iter().map(finish).collect()
}

/// Waits for a child, which is killed at the deadline.
pub fn finish(child: Child) -> Output {
    let id = child.id().to_string();
    let waiting = thread::spawn(move || child.wait_with_output().expect("can be waited for"));
    let started = Instant::now();
    while !waiting.is_finished() {
        if started.elapsed() > DEADLINE {
            let _ = Command::new("kill").args(["-KILL", &id]).status();
            panic!("becalm hangs");
        }
        thread::sleep(Duration::from_millis(5));
    }
    waiting.join().expect("waited")
}

/// True if there is no C compiler.
pub fn no_compiler() -> bool {
    let found = Command::new("cc").arg("--version").output().is_ok_and(|o| o.status.success());
    !found && skipped("no C compiler")
}

/// Compiles with `cc`, in `dir`.
pub fn cc(dir: &Path, arguments: &[&str]) {
    let output = Command::new("cc").current_dir(dir).args(arguments).output().expect("cc runs");
    assert!(
        output.status.success(),
        "cc {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Compiles a library, whose soname is the last component of `out`.
pub fn cc_library(dir: &Path, source: &str, out: &str, more: &[&str]) {
    let soname = format!("-Wl,-soname,{}", out.rsplit('/').next().expect("a name"));
    cc(dir, &[&["-shared", "-fPIC", source, "-o", out, &soname], more].concat());
}

/// A program and its libraries that need nothing of the machine: `app` searches the directories
/// `a`, `b` and `gone` for `libone.so` (in `b`) and `libtwo.so` (in `a`), which need each other,
/// and for `libmissing.so`, which does not exist. Neither the loader cache nor the system
/// directories are searched.
pub struct Fixture {
    pub dir: tempfile::TempDir,
}

impl Fixture {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().expect("a scratch directory");
        let at = dir.path();
        for sub in ["a", "b", "unused"] {
            std::fs::create_dir(at.join(sub)).expect("made");
        }
        std::fs::write(at.join("one.c"), "int one(void) { return 1; }\n").expect("written");
        std::fs::write(at.join("two.c"), "int two(void) { return 2; }\n").expect("written");
        std::fs::write(at.join("lost.c"), "int lost(void) { return 3; }\n").expect("written");
        std::fs::write(
            at.join("app.c"),
            "int one(void); int two(void); int lost(void);\n\
             void _start(void) { one(); two(); lost(); for (;;) ; }\n",
        )
        .expect("written");
        let common = [
            "-nostdlib",
            "-fPIC",
            "-Wl,-z,nodefaultlib",
            "-Wl,--no-as-needed",
            "-Wl,--enable-new-dtags",
            "-Wl,--allow-shlib-undefined",
        ];
        let library = |source: &str, name: &str, more: &[&str]| {
            cc_library(at, source, name, &[&common[..], more].concat());
        };
        library("one.c", "b/libone.so", &[]);
        let path = "-Wl,-rpath,$ORIGIN/../b:$ORIGIN/../a";
        library("two.c", "a/libtwo.so", &[path, "b/libone.so"]);
        library("one.c", "b/libone.so", &[path, "a/libtwo.so"]);
        library("lost.c", "unused/libmissing.so", &[]);
        let mut arguments =
            vec!["app.c", "-o", "app", "-pie", "-Wl,-rpath,$ORIGIN/a:$ORIGIN/b:$ORIGIN/gone"];
        arguments.extend(common);
        arguments.extend(["b/libone.so", "a/libtwo.so", "unused/libmissing.so"]);
        cc(at, &arguments);
        std::fs::remove_dir_all(at.join("unused")).expect("removed");
        Self { dir }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn app(&self) -> String {
        self.path("app").to_str().expect("UTF-8").to_owned()
    }

    /// Flags under which every machine gives the same answer.
    pub const SAME_EVERYWHERE: [&'static str; 4] = ["--libc", "glibc-2.41", "--cpu", "baseline"];

    /// Replaces the parts that differ from machine to machine by names.
    pub fn normalised(&self, text: &str) -> String {
        let interpreter = {
            let ran = check(&["--json", &self.app()]);
            let json: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
            json["programs"][0]["interpreter"].as_str().expect("an interpreter").to_owned()
        };
        let real = self.dir.path().canonicalize().expect("is there");
        text.replace(real.to_str().expect("UTF-8"), "DIR")
            .replace(self.dir.path().to_str().expect("UTF-8"), "DIR")
            .replace(&interpreter, "INTERPRETER")
            .replace(std::env::consts::ARCH, "MACHINE")
    }
}

/// Compares with `tests/golden/<name>`; with BECALM_BLESS=1 writes it instead.
pub fn assert_golden(name: &str, actual: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("BECALM_BLESS").is_some() {
        std::fs::write(&path, actual).expect("written");
        return;
    }
    let expected = std::fs::read_to_string(&path).expect("a golden file");
    assert_eq!(actual, expected, "differs from {}", path.display());
}

/// Checks a scratch folder as a user to whom permissions apply: this one or, if root runs the
/// tests, nobody.
pub fn check_as_user(folder: &Path) -> Ran {
    run(becalm_as_user(folder).arg("check").arg(folder))
}

/// becalm for a scratch folder as such a user.
pub fn becalm_as_user(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_becalm"));
    if std::fs::read_dir(folder.join("locked")).is_ok() {
        // The build directory may be closed to others, so the user gets a copy outside it.
        let copy = folder.join("becalm");
        std::fs::copy(env!("CARGO_BIN_EXE_becalm"), &copy).expect("copied");
        open_to_all(folder);
        open_to_all(&copy);
        command = Command::new(&copy);
        std::os::unix::process::CommandExt::uid(&mut command, 65_534);
    }
    command
}

fn open_to_all(path: &Path) {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(path, mode).expect("opened");
}
