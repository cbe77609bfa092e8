//! Tests `becalm run` with programs whose files are on a slow file system.

use std::cell::Cell;
use std::fs::{self, File, FileTimes};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

/// A tree, its mount point, a home and a folder for records and copies; and the number of mounts.
struct Scene(tempfile::TempDir, Cell<u32>);

impl Scene {
    /// Returns `None` and prints the reason if the test cannot run here.
    fn new() -> Option<Self> {
        let root = nix::unistd::geteuid().is_root();
        if !root || !Path::new("/dev/fuse").exists() || !becalm().exists() {
            assert!(becalm_testing::skipped("no root, no /dev/fuse, or becalm was not built"));
            return None;
        }
        // Copies need a file system of this machine, also if the temporary directory is another one.
        let scene = Self(tempfile::tempdir_in("/var/tmp").unwrap(), Cell::new(0));
        for name in ["tree", "tree/dir", "mount", "home", "copies"] {
            fs::create_dir(scene.at(name)).unwrap();
        }
        fs::set_permissions(scene.at("copies"), fs::Permissions::from_mode(0o700)).unwrap();
        scene.write("first content");
        Some(scene)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes the file of the tree in place, and gives it a time of yesterday.
    fn write(&self, content: &str) {
        let path = self.at("tree/dir/file");
        fs::write(&path, content).unwrap();
        let yesterday = SystemTime::UNIX_EPOCH + Duration::from_secs(1_600_000_000);
        let times = FileTimes::new().set_modified(yesterday);
        File::options().write(true).open(path).unwrap().set_times(times).unwrap();
    }

    /// Runs a script by becalm in the mount; returns what it prints and the numbers of paths of its tables.
    fn run(&self, switches: &str, script: &str) -> (String, Vec<u32>) {
        let (script_name, mount) = (self.at("mount/script"), self.at("mount"));
        let command = ["/bin/sh", "-c", script, text(&script_name), text(&mount)];
        self.start(switches, &command)
    }

    /// Runs a command by becalm while the tree is mounted.
    fn start(&self, switches: &str, command: &[&str]) -> (String, Vec<u32>) {
        let becalm = becalm();
        let becalm = [text(&becalm), "run", "--"];
        self.mounted(switches, &[&becalm[..], command].concat())
    }

    /// Runs a command while the tree is mounted.
    fn mounted(&self, switches: &str, command: &[&str]) -> (String, Vec<u32>) {
        let log = self.at("log");
        let _ = fs::remove_file(&log);
        let mut lab = Command::new(env!("CARGO_BIN_EXE_lab"));
        lab.args(["slowfs", "--delay-us", "0", "--forgetful", "--writable", "--requests"]);
        self.1.set(self.1.get() + 1);
        lab.args([self.requests(), self.at("tree"), self.at("mount")]).arg("--").args(command);
        lab.env("HOME", self.at("home")).env_remove("XDG_CACHE_HOME").current_dir("/");
        lab.env("BECALM_CACHE", self.at("copies")).env("BECALM_TRUST_TIMES", self.at("mount"));
        lab.env("BECALM", format!("{switches}log:{}", log.display()));
        let done = lab.output().unwrap();
        assert!(done.status.success(), "{done:?}");
        let log = fs::read_to_string(log).unwrap_or_default();
        let paths = log.lines().filter_map(|line| line.split_once("\ttrees\t0\tserved\t"));
        let paths = paths.map(|(_, paths)| paths.parse().unwrap()).collect();
        (String::from_utf8(done.stdout).unwrap(), paths)
    }

    /// The file with the numbers of requests of the last mount: an earlier one may not have ended.
    fn requests(&self) -> PathBuf {
        self.at(&format!("requests-{}", self.1.get()))
    }

    /// Returns the number of lookups in the last mount, when it has ended.
    fn lookups(&self) -> u64 {
        let began = Instant::now();
        loop {
            let requests = fs::read_to_string(self.requests()).unwrap();
            if requests.ends_with('\n') {
                let requests: serde_json::Value = serde_json::from_str(&requests).unwrap();
                return requests["lookups"].as_u64().unwrap();
            }
            assert!(began.elapsed() < Duration::from_secs(60), "the mount does not end");
            sleep(Duration::from_millis(100));
        }
    }

    /// Returns the record.
    fn record(&self) -> Option<String> {
        let entries = fs::read_dir(self.at("copies")).unwrap().flatten();
        let mut records = entries.map(|entry| entry.path());
        let record = records.find(|path| path.extension().is_some_and(|it| it == "tree"))?;
        fs::read_to_string(record).ok()
    }

    /// Runs a script until the record has a text; fails if it prints anything else meanwhile.
    fn learn(&self, script: &str, wanted: &str, printed: &str) {
        self.learn_by(wanted, || assert_eq!(self.run("", script).0, printed));
    }

    /// Learns a script, and runs it once more; it must print the same. Returns the numbers of paths of the
    /// tables of that run.
    fn learned(&self, script: &str, wanted: &str, printed: &str) -> Vec<u32> {
        self.learn(script, wanted, printed);
        let (again, paths) = self.run("", script);
        assert_eq!(again, printed);
        paths
    }

    /// Starts a program until the record has a text.
    fn learn_by(&self, wanted: &str, start: impl Fn()) {
        let began = Instant::now();
        while !self.record().is_some_and(|record| record.contains(wanted)) {
            start();
            let is_late = began.elapsed() > Duration::from_secs(60);
            assert!(!is_late, "no {wanted} in {:?}", self.record());
            // The index is made, and copies need two seconds.
            sleep(Duration::from_secs(3));
        }
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Compiles a C program or library.
fn compile(source: &str, to: &Path, flags: &[&str]) {
    let file = to.with_extension("c");
    fs::write(&file, source).unwrap();
    let made = Command::new("cc").arg(&file).args(["-o", text(to)]).args(flags).status().unwrap();
    assert!(made.success(), "{}", to.display());
    fs::remove_file(file).unwrap();
}

fn becalm() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_lab")).with_file_name("becalm")
}

#[test]
fn a_change_by_a_child_is_seen_at_once() {
    let Some(scene) = Scene::new() else { return };
    let script = "sleep .3; look() { [ -e \"$1/dir/new\" ] && echo there || echo missing; }; \
                  look $1; look $1; touch \"$1/dir/new\"; look $1; rm \"$1/dir/new\"; look $1";
    let printed = "missing\nmissing\nthere\nmissing\n";
    let paths = scene.learned(script, "dir/new", printed);
    // Only the shell has a table, not its children, and the table has paths.
    assert!(matches!(paths[..], [paths] if paths >= 1), "{paths:?}");
    assert_eq!(scene.run("notrees,", script), (printed.to_owned(), vec![]));
}

#[test]
fn a_program_of_the_index_that_is_started_later_is_answered_and_sees_what_came_before() {
    let Some(scene) = Scene::new() else { return };
    let look = "sleep .3; [ -e \"$1/dir/new\" ] && echo there || echo missing";
    let script = format!(
        "look() {{ /bin/sh -c '{look}' sh \"$1\"; }}; \
         look $1; touch \"$1/dir/new\"; look $1; rm \"$1/dir/new\"; look $1"
    );
    let printed = "missing\nthere\nmissing\n";
    let paths = scene.learned(&script, "dir/new", printed);
    // Each child has a table of its own time. `touch` and `rm` are not in the index of the shell.
    assert!(paths.len() == 4 && paths.iter().all(|&paths| paths >= 1), "{paths:?}");
}

#[test]
fn a_session_with_another_index_leaves_the_table_to_the_index_of_the_program() {
    let Some(scene) = Scene::new() else { return };
    if !Command::new("strace").arg("-V").output().is_ok_and(|it| it.status.success()) {
        assert!(becalm_testing::skipped("no strace"));
        return;
    }
    let script = "sleep .3; [ -e \"$1/dir/new\" ] && echo there || echo missing";
    scene.learn(script, "dir/new", "missing\n");
    let (store, index, calls) = (scene.at("store"), scene.at("session.so"), scene.at("calls"));
    fs::create_dir_all(store.join("one/lib")).unwrap();
    compile("int one(void) { return 1; }", &store.join("one/lib/libone.so"), &["-shared"]);
    let mut make = Command::new(becalm());
    make.arg("index").arg("--store").args([&store, &store]).arg("-o").arg(&index);
    assert!(make.output().unwrap().status.success());
    let (becalm, session) = (becalm(), format!("LD_AUDIT={}", index.display()));
    let (strace, name, mount) = (["strace", "-f", "-o", text(&calls)], "sh", scene.at("mount"));
    let run = [text(&becalm), "run", "--", "/bin/sh", "-c", script, name, text(&mount)];
    let command = [&["env", &session], &strace[..], &run[..]].concat();
    let (printed, paths) = scene.mounted("", &command);
    assert_eq!((printed.as_str(), paths.len()), ("missing\n", 1));
    // The session's module is called first. If it took the table, the other one would ask for another.
    let calls = fs::read_to_string(&calls).unwrap();
    let begin = calls.find(" execve(\"/bin/sh\"").expect("the shell");
    let shell = calls[..begin].lines().next_back().expect("its number").trim();
    let of_shell = calls[begin..].lines().filter(|line| line.split(' ').next() == Some(shell));
    let asked: Vec<&str> = of_shell.filter(|it| it.contains("@\"becalm-trees-")).collect();
    assert!(asked.is_empty(), "{asked:?}");
}

#[test]
fn a_program_with_fewer_rights_is_not_answered() {
    let Some(scene) = Scene::new() else { return };
    let own = scene.at("tree/own");
    fs::create_dir(&own).unwrap();
    fs::write(own.join("file"), "").unwrap();
    fs::set_permissions(&own, fs::Permissions::from_mode(0o700)).unwrap();
    std::os::unix::fs::chown(&own, Some(1000), None).unwrap();
    let look =
        "/bin/sh -c 'sleep .3; [ -e \"$1/own/file\" ] && echo there || echo missing' sh \"$1\"";
    let script = format!("{look}; setpriv --bounding-set=-all --inh-caps=-all {look}");
    // Root without capabilities may not enter the directory.
    let printed = "there\nmissing\n";
    let paths = scene.learned(&script, "own/file", printed);
    assert!(paths.len() == 2 && paths.iter().all(|&paths| paths >= 1), "{paths:?}");
}

#[test]
fn programs_that_begin_together_share_what_is_looked_up() {
    let Some(scene) = Scene::new() else { return };
    let script = "sleep .5; for i in $(seq 300); do [ -e \"$1/dir/no$i\" ]; done; echo done";
    scene.learn(script, "dir/no300", "done\n");
    let eight = format!(
        "for i in 1 2 3 4 5 6 7 8; do {} run -- /bin/sh -c '{script}' sh \"$1\" & done; wait",
        becalm().display()
    );
    let (mount, done) = (scene.at("mount"), "done\n".repeat(8));
    let command = ["/bin/sh", "-c", &eight, "sh", text(&mount)];
    assert_eq!(scene.mounted("notrees,", &command), (done.clone(), vec![]));
    let plain = scene.lookups();
    let (again, paths) = scene.mounted("", &command);
    assert_eq!(again, done);
    assert!(paths.len() == 8 && paths.iter().all(|&paths| paths >= 280), "{paths:?}");
    let shared = scene.lookups();
    assert!(shared * 3 < plain, "{shared} of {plain}");
    println!("{shared} of {plain} lookups");
}

#[test]
fn a_file_is_read_from_its_copy_until_it_changes() {
    let Some(scene) = Scene::new() else { return };
    let script = "sleep .3; exec 3<\"$1/dir/file\"; readlink /proc/$$/fd/3; cat <&3";
    let (original, copies) = (scene.at("mount/dir/file"), scene.at("copies/copies"));
    let of_original = |content: &str| format!("{}\n{content}", original.display());
    scene.learn(script, "\"copy\"", &of_original("first content"));
    // A path that is not looked at yet is the kernel's.
    let began = Instant::now();
    let copied = loop {
        let (copied, _) = scene.run("", script);
        assert!(copied.ends_with("\nfirst content"), "{copied}");
        if copied != of_original("first content") || began.elapsed() > Duration::from_secs(60) {
            break copied;
        }
    };
    assert!(copied.starts_with(copies.to_str().unwrap()), "{copied}");
    // The same length and time.
    let before = scene.at("tree/dir/file").metadata().unwrap();
    scene.write("other content");
    let after = scene.at("tree/dir/file").metadata().unwrap();
    let seen = |facts: &fs::Metadata| (facts.ino(), facts.len(), facts.modified().unwrap());
    assert_eq!(seen(&before), seen(&after));
    assert_eq!(scene.run("", script).0, of_original("other content"));
}

#[test]
fn a_folder_that_others_can_write_to_is_not_used() {
    let Some(scene) = Scene::new() else { return };
    let script = "sleep .3; exec 3<\"$1/dir/file\"; readlink /proc/$$/fd/3; cat <&3";
    let printed = format!("{}\nfirst content", scene.at("mount/dir/file").display());
    scene.learn(script, "\"copy\"", &printed);
    for copy in fs::read_dir(scene.at("copies/copies")).unwrap().flatten() {
        fs::write(copy.path(), "other content").unwrap();
    }
    fs::set_permissions(scene.at("copies"), fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(scene.run("", script).0, printed);
}

/// Opens `lib.so` by two names and `named.so`, which asks where it is; replaces `lib.so`, opens it again, while
/// it is open and after it was closed. `C` stands for a copy. Then the names in the directory are counted, one
/// is made, and they are counted again.
const OPENS: &str = r#"
#include <dirent.h>
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static char path[4096], root[2048];
static const char *in (const char *name) { snprintf (path, sizeof path, "%s/dir/%s", root, name); return path; }
static void *see (const char *name)
{
  void *opened = dlopen (in (name), RTLD_NOW);
  struct link_map *map = opened;
  int (*value) (void) = opened ? (int (*) (void)) dlsym (opened, "value") : 0;
  if (value)
    printf ("%s%d ", strstr (map->l_name, "/copies/") ? "C" : "", value ());
  else
    printf ("none ");
  return opened;
}
static int names (void)
{
  int count = 0;
  DIR *dir = opendir (in (""));
  while (dir && readdir (dir)) count++;
  if (dir) closedir (dir);
  return count;
}
int main (int argc, char **args)
{
  char other[4200];
  snprintf (root, sizeof root, "%s", args[1]);
  usleep (300000);
  void *first = see ("lib.so"), *second = see ("link.so"), *third = see ("hard.so");
  printf ("%d %d ", first == second, first == third);
  see ("named.so");
  int before = names ();
  FILE *made = fopen (in ("made"), "w");
  fclose (made);
  printf ("%d ", names () - before);
  unlink (in ("made"));
  snprintf (other, sizeof other, "%s", in ("new.so"));
  if (access (other, F_OK) == 0) rename (other, in ("lib.so"));
  void *again = see ("lib.so");
  printf ("%d ", again == first);
  dlclose (first); dlclose (second); dlclose (third); dlclose (again);
  see ("lib.so");
  puts ("");
  return 0;
}
"#;

#[test]
fn a_library_is_loaded_once_from_its_copy_and_a_new_one_when_it_was_closed() {
    let Some(scene) = Scene::new() else { return };
    let dir = scene.at("tree/dir");
    let value = |number: u32| format!("int value(void) {{ return {number}; }}\n");
    compile(&value(1), &dir.join("lib.so"), &["-shared", "-fPIC"]);
    let asks = "int dladdr(void *, void *); int where(void *of) { return dladdr(of, of); }\n";
    compile(&format!("{asks}{}", value(3)), &dir.join("named.so"), &["-shared", "-fPIC"]);
    std::os::unix::fs::symlink("lib.so", dir.join("link.so")).unwrap();
    fs::hard_link(dir.join("lib.so"), dir.join("hard.so")).unwrap();
    for name in ["lib.so", "named.so"] {
        let yesterday = SystemTime::now() - Duration::from_secs(100_000);
        File::open(dir.join(name)).unwrap().set_modified(yesterday).unwrap();
    }
    let program = scene.at("program");
    compile(OPENS, &program, &["-ldl"]);
    // A file that has just changed is not bound.
    sleep(Duration::from_secs(3));
    let (program, mount) = (text(&program).to_owned(), scene.at("mount"));
    let start = |switches: &str| scene.start(switches, &[&program, text(&mount)]).0;
    let plain = "1 1 1 1 1 3 1 1 1 1 \n";
    scene.learn_by("\"loads\":true", || assert_eq!(start(""), plain));
    let copied = "C1 C1 C1 1 1 3 1 C1 1 1 \n";
    let began = Instant::now();
    while start("") != copied {
        assert!(began.elapsed() < Duration::from_secs(60), "{} {:?}", start(""), scene.record());
        sleep(Duration::from_secs(1));
    }
    // From now on the program replaces the library while it runs.
    compile(&value(2), &dir.join("new.so"), &["-shared", "-fPIC"]);
    assert_eq!(start(""), "C1 C1 C1 1 1 3 1 C1 1 2 \n");
    assert_eq!(start(""), "2 2 1 1 0 3 1 2 1 2 \n");
    assert_eq!(start("notrees,"), "2 2 1 1 0 3 1 2 1 2 \n");
}

/// A program that prints a file with its size, the names beside it and what its library returns.
const READER: &str = r#"
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
int answer (void);
int main (int argc, char **argv)
{
  char path[4096], content[64] = "";
  struct stat file;
  const struct dirent *entry;
  /* The results are there when the program asks. */
  usleep (300000);
  snprintf (path, sizeof path, "%s/dir/none", argv[1]);
  int none = access (path, F_OK) == 0;
  snprintf (path, sizeof path, "%s/dir/file", argv[1]);
  long size = stat (path, &file) == 0 ? (long) file.st_size : -1;
  FILE *from = fopen (path, "r");
  if (from == NULL || fgets (content, sizeof content, from) == NULL)
    strcpy (content, "unreadable");
  printf ("%d %ld %s %d:", answer (), size, content, none);
  snprintf (path, sizeof path, "%s/dir", argv[1]);
  DIR *names = opendir (path);
  while (names != NULL && (entry = readdir (names)) != NULL)
    if (entry->d_name[0] != '.')
      printf (" %s", entry->d_name);
  puts ("");
  return 0;
}"#;

/// Ends the processes of becalm that were started with an argument.
fn end_all(argument: &str) {
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let mut words = line.split(|&byte| byte == 0);
        let is_becalm = words.next().is_some_and(|it| it.ends_with(b"/becalm"));
        if is_becalm && words.any(|it| it == argument.as_bytes()) {
            let id = process.file_name().into_string().unwrap();
            let _ = Command::new("kill").args(["-9", &id]).status();
        }
    }
}

#[test]
fn a_pack_is_compared_in_each_start_once_a_machine_or_never() {
    let Some(scene) = Scene::new() else { return };
    fs::create_dir(scene.at("tree/bin")).unwrap();
    let (library, program) = (scene.at("tree/bin/libanswer.so"), scene.at("tree/bin/reader"));
    let name = "-Wl,-soname,libanswer.so";
    compile("int answer (void) { return 42; }", &library, &["-shared", "-fPIC", name]);
    compile(READER, &program, &[text(&library), "-Wl,-rpath,$ORIGIN"]);
    fs::write(scene.at("tree/generation"), "1").unwrap();
    std::os::unix::fs::symlink("reader", scene.at("tree/bin/link")).unwrap();
    let (program, mount) = (scene.at("mount/bin/link"), scene.at("mount"));
    let command = [text(&program), text(&mount)];
    let first = "42 13 first content 0: file\n";
    scene.learn_by("dir/none", || assert_eq!(scene.start("", &command).0, first));
    scene.learn_by("\"copy\"", || assert_eq!(scene.start("", &command).0, first));
    let becalm = becalm();
    let generation = scene.at("mount/generation");
    let write = |name: &str, more: &[&str]| {
        let pack = scene.at(name).into_os_string().into_string().unwrap();
        let write = [text(&becalm), "pack", "-o", &pack, command[0]];
        scene.mounted("", &[&write[..], more].concat());
        pack
    };
    let pack = write("pack.tar", &[]);
    let of_generation = write("generation.tar", &["--generation", text(&generation)]);

    // Another machine, whose home has no index.
    for name in ["home", "copies"] {
        fs::remove_dir_all(scene.at(name)).unwrap();
        fs::create_dir(scene.at(name)).unwrap();
        fs::set_permissions(scene.at(name), fs::Permissions::from_mode(0o700)).unwrap();
    }
    let start = |pack: &str, check: &str| {
        let run = [text(&becalm), "run", "-q", "--pack", pack, "--check", check, "--"];
        let printed = scene.mounted("", &[&run[..], &command].concat()).0;
        end_all(pack);
        (printed, scene.lookups())
    };
    let (printed, lookups) = start(&pack, "never");
    assert_eq!(printed, first);
    assert!(lookups <= 4, "{lookups}: nothing of the tree is looked up");
    scene.write("second, longer");
    fs::write(scene.at("tree/dir/none"), "").unwrap();
    let second = "42 14 second, longer 1: file none\n";
    let sorted = |printed: &str| printed.replace(": none file", ": file none");
    assert_eq!(start(&pack, "never").0, first);
    // Its generation is as it was. The first start has no index yet.
    let began = Instant::now();
    while start(&of_generation, "start").0 != first {
        assert!(began.elapsed() < Duration::from_secs(60), "the generation is not trusted");
    }
    for check in ["start", "node"] {
        assert_eq!(sorted(&start(&pack, check).0), second, "{check}");
    }
    fs::write(scene.at("tree/generation"), "2").unwrap();
    assert_eq!(sorted(&start(&of_generation, "start").0), second);

    // On one mount: a change by another machine is not seen, one by this machine is.
    let script = "run() { \"$0\" run -q --pack \"$3\" --check node -- \"$1\" \"$2\"; }; run \"$@\"; \
                  printf 'other content' > \"$4\"; run \"$@\"; touch \"$2/dir/more\"; run \"$@\"";
    let below = scene.at("tree/dir/file");
    let shell =
        ["/bin/sh", "-c", script, text(&becalm), command[0], command[1], &pack, text(&below)];
    let printed = scene.mounted("", &shell).0;
    end_all(&pack);
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.len(), 3, "{printed}");
    assert!(lines[0].starts_with("42 14 second, longer 1:"), "{printed}");
    // The file is not that of the pack, so it is read from the tree; its size is that of the first start.
    assert!(lines[1].starts_with("42 14 other content 1:"), "{printed}");
    assert!(lines[2].starts_with("42 13 other content 1:"), "{printed}");

    // The tree is gone, with the program itself.
    fs::remove_dir_all(scene.at("tree")).unwrap();
    fs::create_dir(scene.at("tree")).unwrap();
    let (printed, lookups) = start(&pack, "never");
    assert_eq!(printed, first);
    assert!(lookups <= 4, "{lookups}");
}
