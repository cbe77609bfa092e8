//! A scratch store of objects built here, its index, and starts with and without it.

use std::ffi::OsStr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use becalm_core::index::{Index, Target, embed, encode};
use becalm_host::OsFs;
use becalm_host::index_store::{IndexOptions, Indexed, index_stores};
use tempfile::TempDir;

/// The common part of the tests' programs: prints the loaded objects, then the program's own line.
pub(crate) const SHOW: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
static int show_one(struct dl_phdr_info *info, size_t size, void *data) {
  (void) size; (void) data;
  printf("%s\n", info->dlpi_name);
  return 0;
}
static void show(int value) {
  dl_iterate_phdr(show_one, 0);
  printf("value %d\n", value);
}
"#;

/// A folder with a store in it.
pub(crate) struct Scene {
    dir: TempDir,
}

/// The result of a start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// True if the test cannot run here; fails if everything is required.
pub(crate) fn skip() -> bool {
    let reason = if Command::new("cc").arg("--version").output().is_err() {
        "no C compiler (Debian: gcc)"
    } else if Command::new("make").arg("--version").output().is_err() {
        "no make (Debian: make)"
    } else if !cfg!(all(target_os = "linux", target_env = "gnu")) {
        "no glibc here"
    } else {
        return false;
    };
    becalm_testing::skipped(reason)
}

/// True if there is no strace, which counts calls.
pub(crate) fn no_strace() -> bool {
    Command::new("strace").arg("-V").output().is_err()
        && becalm_testing::skipped("no strace (Debian: strace)")
}

impl Scene {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("store")).unwrap();
        Self { dir }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The path as text, for compiler flags and environments.
    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.path("store")
    }

    /// Compiles `source` to the file `name`; each `@` in the arguments is the scene's folder.
    pub(crate) fn cc(&self, name: &str, source: &str, arguments: &[&str]) -> PathBuf {
        self.compile("cc", "source.c", name, source, arguments)
    }

    /// Compiles C++ as [`Scene::cc`] compiles C.
    pub(crate) fn cxx(&self, name: &str, source: &str, arguments: &[&str]) -> PathBuf {
        self.compile("g++", "source.cc", name, source, arguments)
    }

    fn compile(
        &self,
        compiler: &str,
        file: &str,
        name: &str,
        source: &str,
        arguments: &[&str],
    ) -> PathBuf {
        let out = self.path(name);
        std::fs::create_dir_all(out.parent().unwrap()).unwrap();
        let input = self.path(file);
        std::fs::write(&input, source).unwrap();
        let folder = self.dir.path().to_str().unwrap();
        let made = Command::new(compiler)
            .args(["-w", "-O1", "-Wl,--no-as-needed", "-o"])
            .args([&out, &input])
            .args(arguments.iter().map(|argument| argument.replace('@', folder)))
            .output()
            .unwrap();
        assert!(made.status.success(), "{compiler}: {}", String::from_utf8_lossy(&made.stderr));
        out
    }

    /// Compiles a library whose function `name()` (of the soname) returns `value`.
    pub(crate) fn library(&self, file: &str, function: &str, value: i32, arguments: &[&str]) {
        let soname = Path::new(file).file_name().unwrap().to_str().unwrap().to_owned();
        let soname = format!("-Wl,-soname,{soname}");
        let source = format!("int {function}(void) {{ return {value}; }}");
        let mut all = vec!["-shared", "-fPIC", soname.as_str()];
        all.extend(arguments);
        self.cc(file, &source, &all);
    }

    /// Builds the module.
    pub(crate) fn module(&self) -> PathBuf {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../audit/module");
        let out = self.path("module.so");
        let made = Command::new("make")
            .args(["-s", "-C"])
            .arg(&sources)
            .arg(format!("OUT={}", out.display()))
            .output()
            .unwrap();
        assert!(made.status.success(), "make: {}", String::from_utf8_lossy(&made.stderr));
        out
    }

    /// Indexes the store, with these directories of `LD_LIBRARY_PATH`, into `index.so`.
    pub(crate) fn index(&self, dirs: &[&str]) -> Indexed {
        // Older than the clock's granularity, because newer files are not trusted.
        std::thread::sleep(Duration::from_millis(250));
        let dirs: Vec<PathBuf> = dirs.iter().map(|dir| self.path(dir)).collect();
        let stores = [self.store()];
        let options = IndexOptions { stores: &stores, dirs: &dirs, ..IndexOptions::default() };
        let indexed = index_stores(&OsFs::new(), options);
        assert!(indexed.errors.is_empty(), "{:?}", indexed.errors);
        let machine = &indexed.machines[0];
        self.write_index(&machine.index, machine.target);
        indexed
    }

    pub(crate) fn write_index(&self, index: &Index, target: Target) {
        let module = std::fs::read(self.module()).unwrap();
        let file = embed(&module, &encode(index, target).unwrap()).unwrap();
        std::fs::write(self.path("index.so"), file).unwrap();
    }

    /// Starts a program with only the given environment.
    pub(crate) fn start(&self, program: &str, environment: &[(&str, &str)]) -> Ran {
        start(&[self.path(program)], environment)
    }

    /// Starts it with the index; also returns the log of answers.
    pub(crate) fn calmed(
        &self,
        program: &str,
        environment: &[(&str, &str)],
    ) -> (Ran, Vec<(String, String)>) {
        let (logged, answers) = self.logged(&[self.path(program)], environment);
        let index = self.text("index.so");
        let ran = self.start(program, &[&[("LD_AUDIT", index.as_str())], environment].concat());
        assert_eq!(ran, logged, "logging changes nothing");
        (ran, answers)
    }

    /// Starts a command line under the index; also returns the log of answers.
    pub(crate) fn logged<S: AsRef<OsStr>>(
        &self,
        line: &[S],
        environment: &[(&str, &str)],
    ) -> (Ran, Vec<(String, String)>) {
        let log = self.path("log");
        let _ = std::fs::remove_file(&log);
        let (index, becalm) = (self.text("index.so"), format!("log:{}", log.display()));
        let audit = [("LD_AUDIT", index.as_str()), ("BECALM", becalm.as_str())];
        let ran = start(line, &[&audit, environment].concat());
        (ran, answers(&log))
    }

    /// Returns the file calls of a start, and those of them that fail, as strace counts them.
    pub(crate) fn file_calls(&self, program: &str, environment: &[(&str, &str)]) -> (usize, usize) {
        let out = self.path("strace");
        let set = environment.iter().map(|(name, value)| format!("-E{name}={value}"));
        let ran = Command::new("strace")
            .args(["-f", "-e", "trace=%file", "-o"])
            .arg(&out)
            .args(set)
            .arg(self.path(program))
            .env_clear()
            .output()
            .unwrap();
        assert!(ran.status.success(), "{ran:?}");
        let text = std::fs::read_to_string(out).unwrap();
        let calls = || text.lines().filter(|line| line.contains(" = "));
        (calls().count(), calls().filter(|line| line.contains(" = -1 ")).count())
    }

    /// Asserts that a start is the same with the index; returns the start and the answers.
    pub(crate) fn same(
        &self,
        program: &str,
        environment: &[(&str, &str)],
    ) -> (Ran, Vec<(String, String)>) {
        let plain = self.start(program, environment);
        let (calmed, answers) = self.calmed(program, environment);
        assert_eq!(plain, calmed, "answered: {answers:#?}");
        (calmed, answers)
    }
}

/// Starts a command line with an environment.
pub(crate) fn start<S: AsRef<OsStr>>(line: &[S], environment: &[(&str, &str)]) -> Ran {
    let mut command = Command::new(&line[0]);
    command.args(&line[1..]).env_clear().envs(environment.iter().copied()).stdin(Stdio::null());
    let output = command.output().unwrap();
    Ran {
        code: output.status.code().unwrap_or_else(|| 128 + output.status.signal().unwrap_or(0)),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Returns the lookups that the module answered, with the answers, from its log.
pub(crate) fn answers(log: &Path) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.lines()
        .filter_map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            match fields[..] {
                [_, "search", _, "1", needed, answer] if !answer.is_empty() => {
                    Some((needed.to_owned(), answer.to_owned()))
                }
                _ => None,
            }
        })
        .collect()
}

/// True if the lookup was answered.
pub(crate) fn answered(answers: &[(String, String)], needed: &str) -> bool {
    answers.iter().any(|(name, _)| name == needed)
}

/// A program header of a 64-bit file of this machine, and its offset.
pub(crate) struct Header {
    pub(crate) at: usize,
    pub(crate) kind: u32,
    pub(crate) offset: usize,
}

/// The program headers of a 64-bit file of this machine.
pub(crate) fn headers(file: &[u8]) -> Vec<Header> {
    let start = word(file, 32) as usize;
    let count = usize::from(u16::from_ne_bytes([file[56], file[57]]));
    let header = |at: usize| Header {
        at,
        kind: u32::from_ne_bytes(file[at..at + 4].try_into().unwrap()),
        offset: word(file, at + 8) as usize,
    };
    (0..count).map(|i| header(start + 56 * i)).collect()
}

/// Returns eight bytes of a file as a number.
pub(crate) fn word(file: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(file[at..at + 8].try_into().unwrap())
}
