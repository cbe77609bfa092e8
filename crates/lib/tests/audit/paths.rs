//! File lookups answered from the index: the program gets the kernel's results, and lookups of
//! missing files make no system call.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use becalm_core::index::paths::Paths;
use becalm_host::OsFs;
use becalm_host::index_store::{BindThreshold, Binding, IndexOptions, index_stores};
use becalm_host::path_table::{Packages, PathStore, path_table};

use crate::support::{Ran, Scene, skip, start};

pub(crate) const A: &str = "store/0123456789abcdfghijklmnpqrsvwxyz-a";
pub(crate) const B: &str = "store/1123456789abcdfghijklmnpqrsvwxyz-b";

/// Machines with stubs.
pub(crate) fn skip_here() -> bool {
    let has_stubs = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));
    skip() || (!has_stubs && becalm_testing::skipped("stubs are for x86-64 and AArch64"))
}

/// Two packages, and a program that makes the lookups of its arguments.
pub(crate) fn scene() -> Scene {
    let scene = Scene::new();
    for dir in ["lib/python/pkg", "lib/empty", "share"] {
        fs::create_dir_all(scene.path(A).join(dir)).unwrap();
    }
    fs::create_dir_all(scene.path(B).join("share/deep")).unwrap();
    for number in 0..400 {
        fs::write(scene.path(A).join(format!("lib/python/pkg/m{number}.py")), "").unwrap();
    }
    fs::write(scene.path(B).join("share/deep/data"), "x").unwrap();
    symlink(scene.path(B).join("share"), scene.path(A).join("lib/link")).unwrap();
    symlink("link", scene.path(A).join("lib/again")).unwrap();
    symlink("python/pkg/m1.py", scene.path(A).join("lib/file")).unwrap();
    scene
}

impl Scene {
    /// Makes `index.so`, with the bindings of programs and the paths of the store.
    pub(crate) fn index_paths(&self, programs: &[&str]) -> Paths {
        std::thread::sleep(std::time::Duration::from_millis(250));
        let files: Vec<PathBuf> = programs.iter().map(|program| self.path(program)).collect();
        let bind = Binding { threshold: BindThreshold::ALL, only: None, environments: &[] };
        let options = IndexOptions { files: &files, bind: Some(bind), ..IndexOptions::default() };
        let mut machine = index_stores(&OsFs::new(), options).machines.remove(0);
        let store = PathStore { path: self.store(), packages: Packages::Hashed };
        let table = path_table(&[store], None, &[]).unwrap();
        assert!(table.left_out.is_empty(), "{:?}", table.left_out);
        machine.index.paths = Some(table.paths.clone());
        self.write_index(&machine.index, machine.target);
        table.paths
    }

    pub(crate) fn asks(&self, name: &str, source: &str) {
        let source = format!(
            "#define _GNU_SOURCE\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\
             #include <errno.h>\n#include <fcntl.h>\n#include <unistd.h>\n#include <sys/stat.h>\n\
             #include <sys/syscall.h>\n#include <pthread.h>\n#include <dirent.h>\n\
             static char path[4096]; static char *in(const char *p) \
             {{ sprintf(path, \"%s/%s\", getenv(\"P\"), p); return path; }}\n{source}"
        );
        self.cc(name, &source, &["-pthread"]);
    }

    /// Starts with and without answers, and asserts that both are the same. Returns the log's line
    /// about paths.
    pub(crate) fn same_paths(&self, program: &str, arguments: &[&str]) -> (Ran, String) {
        let line: Vec<String> = std::iter::once(self.text(program))
            .chain(arguments.iter().map(ToString::to_string))
            .collect();
        let package = self.text(A);
        let plain = start(&line, &[("P", &package)]);
        let (ran, said) = self.with_paths(&line);
        assert_eq!(plain, ran);
        (ran, said)
    }

    pub(crate) fn with_paths(&self, line: &[String]) -> (Ran, String) {
        let log = self.path("log");
        let _ = fs::remove_file(&log);
        let (index, package) = (self.text("index.so"), self.text(A));
        let switches = format!("paths,log:{}", log.display());
        let environment =
            [("P", package.as_str()), ("LD_AUDIT", index.as_str()), ("BECALM", &switches)];
        let ran = start(line, &environment);
        let said = fs::read_to_string(&log).unwrap_or_default();
        let of_paths = said.lines().find_map(|line| Some(line.split_once("\tpaths\t0\t")?.1));
        // The line about bindings has the reason.
        (ran, of_paths.map_or(said.clone(), ToOwned::to_owned))
    }

    /// The system calls of a start that name a path below the store, with and without answers.
    fn calls(&self, program: &str) -> Option<(Vec<String>, Vec<String>)> {
        if Command::new("strace").arg("-V").output().is_err() {
            becalm_testing::skip("no strace (Debian: strace)");
            return None;
        }
        let store = self.text("store/");
        let trace = |variables: &[String]| {
            let out = self.path("calls");
            let mut strace = Command::new("strace");
            strace.args(["-f", "-s", "4096", "-o"]).arg(&out);
            for variable in variables {
                strace.args(["-E", variable]);
            }
            let ran = strace.arg(self.path(program)).env_clear().output().unwrap();
            assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
            let text = fs::read_to_string(out).unwrap();
            text.lines().filter(|line| line.contains(&store)).map(str::to_owned).collect()
        };
        let package = format!("P={}", self.text(A));
        let plain = trace(std::slice::from_ref(&package));
        let audit = format!("LD_AUDIT={}", self.text("index.so"));
        Some((plain, trace(&[package, audit, "BECALM=paths".to_owned()])))
    }
}

/// Every call that may report that a file does not exist.
const ASKS: &str = r#"
static void say(const char *what, long result) { printf("%s %ld %d\n", what, result, result < 0 ? errno : 0); }
int main(void) {
  struct stat s; struct statx x; char b[4096]; const char *no = "lib/python/no.py";
  say("stat", stat(in(no), &s)); say("lstat", lstat(in(no), &s));
  say("fstatat", fstatat(AT_FDCWD, in(no), &s, 0)); say("statx", statx(AT_FDCWD, in(no), 0, STATX_BASIC_STATS, &x));
  say("syscall", syscall(SYS_statx, AT_FDCWD, in(no), 0, STATX_BASIC_STATS, &x));
  say("open", open(in(no), O_RDONLY)); say("openat", openat(AT_FDCWD, in(no), O_RDONLY));
  say("access", access(in(no), R_OK)); say("faccessat", faccessat(AT_FDCWD, in(no), F_OK, 0));
  say("readlink", readlink(in(no), b, sizeof b)); say("readlinkat", readlinkat(AT_FDCWD, in(no), b, sizeof b));
  say("fopen", fopen(in(no), "re") ? 0 : -1); say("opendir", opendir(in(no)) ? 0 : -1);
  say("realpath", realpath(in(no), 0) ? 0 : -1); say("canonical", canonicalize_file_name(in(no)) ? 0 : -1);
  struct dirent **names; say("scandir", scandir(in(no), &names, 0, 0)); say("eaccess", eaccess(in(no), R_OK));
  say("linked", stat(in("lib/link/no"), &s));
  for (int i = 0; i < 3; i++) { say("directory", stat(in("lib/python"), &s)); printf("%lo %ld %ld\n", (long) s.st_mode, (long) s.st_ino, (long) s.st_mtim.tv_nsec); }
  say("not a link", readlink(in("lib/python/pkg/m1.py"), b, sizeof b));
  char *real = realpath(in("lib/python/pkg"), 0); puts(real); free(real);
  puts(realpath(in("lib/python/pkg/m2.py"), b));
}
"#;

#[test]
fn what_is_not_there_costs_no_system_call_and_errno_is_the_kernels() {
    if skip_here() {
        return;
    }
    let scene = scene();
    scene.asks("ask", ASKS);
    scene.index_paths(&["ask"]);
    let (ran, said) = scene.same_paths("ask", &[]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(said.starts_with("served\t"), "{said}");
    let Some((plain, answered)) = scene.calls("ask") else { return };
    assert!(plain.len() >= 25, "{plain:#?}");
    // The store and its folders are checked, one directory is looked up, and nothing else.
    let of_package: Vec<&String> =
        answered.iter().filter(|c| c.contains("0123456789") && !c.contains(" write(")).collect();
    assert!(of_package.len() <= 1, "{of_package:#?}");
}

#[test]
fn only_what_the_table_is_sure_of_is_answered() {
    if skip_here() {
        return;
    }
    let scene = scene();
    scene.asks(
        "ask",
        r#"int main(void) { struct stat s; const char *all[] = { "", "lib/..", "lib/python/..", "lib/file/x",
          "lib/python/", "lib/no/", "lib/again/no", "lib/link", "lib/link/deep/data", "../none-x/lib",
          "lib/.snapshot", "lib/python/pkg/m1.py/x", "lib/python/pkg/m1.py/", "./lib//python/./no" };
          for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
            { errno = 0; int r = lstat(in(all[i]), &s); printf("%s %d %d\n", all[i], r, errno); } }"#,
    );
    scene.index_paths(&["ask"]);
    let (ran, said) = scene.same_paths("ask", &[]);
    assert_eq!(ran.code, 0);
    let log = fs::read_to_string(scene.path("log")).unwrap();
    assert!(said.starts_with("served\t"), "{said} {log}");
}

/// A cancelled thread ends in a call that would otherwise be answered.
#[test]
fn a_cancelled_thread_ends_at_an_absent_file() {
    if skip_here() {
        return;
    }
    let scene = scene();
    scene.asks(
        "ask",
        r#"static volatile int cancelled; static int cleaned;
           static void clean(void *x) { cleaned++; }
           static void *run(void *x) { pthread_cleanup_push(clean, 0);
             while (!cancelled) usleep(1000);
             OPENS; pthread_cleanup_pop(0); return "went on"; }
           int main(void) { pthread_t t; void *r; pthread_create(&t, 0, run, 0);
             pthread_cancel(t); cancelled = 1; pthread_join(t, &r);
             printf("%s %d\n", r == PTHREAD_CANCELED ? "cancelled" : "went on", cleaned); }"#
            .replace("OPENS", r#"open(in("lib/no"), O_RDONLY)"#)
            .as_str(),
    );
    scene.index_paths(&["ask"]);
    let (ran, _) = scene.same_paths("ask", &[]);
    assert_eq!(ran.stdout, "cancelled 1\n");
}

#[test]
fn a_package_that_is_replaced_or_removed_is_the_kernels_within_two_seconds() {
    if skip_here() {
        return;
    }
    let scene = scene();
    // The program reports its first lookup, waits for a line, and repeats the lookup until the
    // answer changes.
    scene.asks(
        "ask",
        r#"int main(void) { struct stat s; char line[10]; int before = lstat(in("lib/new"), &s);
           puts(before ? "absent" : "there"); fflush(stdout); read(0, line, 1);
           for (int i = 0; i < 1000 && lstat(in("lib/new"), &s) != 0; i++) usleep(10000);
           puts(lstat(in("lib/new"), &s) ? "absent" : "there"); }"#,
    );
    scene.index_paths(&["ask"]);
    let mut child = scene.asking();
    fs::rename(scene.path(A), scene.path("old")).unwrap();
    fs::create_dir_all(scene.path(A).join("lib/new")).unwrap();
    assert_eq!(finish(&mut child), "there\n");
}

impl Scene {
    /// Starts the program; it has reported a missing file and waits for a line.
    fn asking(&self) -> Child {
        let mut child = Command::new(self.path("ask"))
            .env_clear()
            .envs([("P", self.text(A)), ("LD_AUDIT", self.text("index.so"))])
            .env("BECALM", "paths")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = [0; 7];
        child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
        assert_eq!(&first, b"absent\n");
        child
    }
}

/// Lets the program continue and returns its further output.
fn finish(child: &mut Child) -> String {
    child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
    let mut rest = String::new();
    child.stdout.as_mut().unwrap().read_to_string(&mut rest).unwrap();
    child.wait().unwrap();
    rest
}

#[test]
fn without_the_word_with_other_objects_or_without_bindings_nothing_is_answered() {
    if skip_here() {
        return;
    }
    let scene = scene();
    scene.asks("ask", ASKS);
    scene.asks("stranger", ASKS);
    scene.index_paths(&["ask"]);
    let (_, said) = scene.same_paths("stranger", &[]);
    assert_eq!(said, "declined\tnot-indexed");
    let ask = |switches: &str, preload: &[(&str, &str)]| {
        let log = scene.path("log");
        let _ = fs::remove_file(&log);
        let (index, package) = (scene.text("index.so"), scene.text(A));
        let switches = format!("{switches},log:{}", log.display());
        let all = [("P", package.as_str()), ("LD_AUDIT", &index), ("BECALM", &switches)];
        start(&[scene.path("ask")], &[&all[..], preload].concat());
        let said = fs::read_to_string(&log).unwrap();
        said.lines().find_map(|line| Some(line.split_once("\tpaths\t0\t")?.1.to_owned()))
    };
    assert_eq!(ask("on", &[]), None);
    assert_eq!(ask("paths,nopaths", &[]), None);
    assert_eq!(ask("paths,nobind", &[]).as_deref(), Some("declined\tbindings"));
    scene.cc("lib/preload.so", "int unused;", &["-shared", "-fPIC"]);
    let preload = scene.text("lib/preload.so");
    let said = ask("paths", &[("LD_PRELOAD", &preload)]);
    assert_eq!(said.as_deref(), Some("declined\tbindings"));
}

/// An interposer is called first and last, as without an index.
#[test]
fn an_interposer_keeps_its_calls() {
    if skip_here() {
        return;
    }
    let scene = scene();
    let interposer =
        "#include <stdio.h>\nint access(const char *p, int m) { puts(\"mine\"); return 0; }";
    let soname = "-Wl,-soname,libmine.so";
    scene.cc("lib/libmine.so", interposer, &["-shared", "-fPIC", soname]);
    scene.cc(
        "ask",
        "#include <stdio.h>\n#include <unistd.h>\n#include <stdlib.h>\nint main(void) \
         { char p[4096]; sprintf(p, \"%s/lib/no\", getenv(\"P\")); return access(p, 0); }",
        &["@/lib/libmine.so", "-Wl,-rpath,@/lib"],
    );
    scene.index_paths(&["ask"]);
    let (ran, said) = scene.same_paths("ask", &[]);
    assert!(said.starts_with("served\t"), "{said}");
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "mine\n"));
}

/// Random lookups in threads, each compared with a system call.
#[test]
fn many_questions_in_threads_are_answered_as_by_the_kernel() {
    if skip_here() {
        return;
    }
    let scene = scene();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../audit/module/tests");
    let source = fs::read_to_string(folder.join("paths.c")).unwrap();
    // It includes a header of the module.
    let include = format!("-I{}", folder.display());
    scene.cc("ask", &source, &["-pthread", &include]);
    let paths = scene.index_paths(&["ask"]);
    let mut list = String::new();
    for package in [A, B] {
        let package = package.strip_prefix("store/").unwrap();
        list.push_str(&format!("{package}\n{package}/lib/link/deep\n{package}/lib/python/pkg\n"));
        list.push_str(&format!(
            "{package}/lib/file\n{package}/lib/again/deep/data\n{package}/share\n"
        ));
        (0..40).for_each(|n| list.push_str(&format!("{package}/lib/python/pkg/m{n}.py\n")));
    }
    assert!(paths.count() > 400);
    fs::write(scene.path("list"), list).unwrap();
    let line = [scene.text("ask"), scene.text("store"), scene.text("list")];
    let line: Vec<String> =
        line.into_iter().chain(["4", "40000", "7"].map(str::to_owned)).collect();
    let (ran, said) = scene.with_paths(&line);
    assert!(said.starts_with("served\t"), "{said}");
    assert_eq!(ran.code, 0, "{}", ran.stdout);
    assert!(ran.stdout.ends_with("late 0 wrong 0\n"), "{}", ran.stdout);
}

/// The conditions are looked at when there is an answer to give.
#[test]
fn lookups_of_files_that_exist_cost_no_call_more() {
    if skip_here() {
        return;
    }
    let scene = scene();
    scene.asks(
        "ask",
        r#"int main(void) { struct stat s; int found = 0; for (int i = 0; i < 100; i++)
           { char p[99]; sprintf(p, "lib/python/pkg/m%d.py", i); found += stat(in(p), &s) == 0;
             int f = open(in(p), O_RDONLY); found += f >= 0; close(f); }
           return found != 200; }"#,
    );
    scene.index_paths(&["ask"]);
    let Some((plain, answered)) = scene.calls("ask") else { return };
    assert_eq!((plain.len(), answered.len()), (200, 200), "{answered:#?}");
    let all = fs::read_to_string(scene.path("calls")).unwrap();
    assert!(!all.contains("mountinfo"), "{all}");
}
