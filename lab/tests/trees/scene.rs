//! A tree on a slow file system, and programs that are started in it by `becalm run`.

use std::cell::Cell;
use std::fs::{self, File, FileTimes};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

/// A tree, its mount point, a home and a folder for records and copies; and the number of mounts.
pub(crate) struct Scene(tempfile::TempDir, Cell<u32>);

impl Scene {
    /// Returns `None` and prints the reason if the test cannot run here.
    pub(crate) fn new() -> Option<Self> {
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

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes the file of the tree in place, and gives it a time of yesterday.
    pub(crate) fn write(&self, content: &str) {
        let path = self.at("tree/dir/file");
        fs::write(&path, content).unwrap();
        let yesterday = SystemTime::UNIX_EPOCH + Duration::from_secs(1_600_000_000);
        let times = FileTimes::new().set_modified(yesterday);
        File::options().write(true).open(path).unwrap().set_times(times).unwrap();
    }

    /// Runs a script by becalm in the mount; returns what it prints and the numbers of paths of its tables.
    pub(crate) fn run(&self, switches: &str, script: &str) -> (String, Vec<u32>) {
        let (script_name, mount) = (self.at("mount/script"), self.at("mount"));
        let command = ["/bin/sh", "-c", script, text(&script_name), text(&mount)];
        self.start(switches, &command)
    }

    /// Runs a command by becalm while the tree is mounted.
    pub(crate) fn start(&self, switches: &str, command: &[&str]) -> (String, Vec<u32>) {
        let becalm = becalm();
        let becalm = [text(&becalm), "run", "--"];
        self.mounted(switches, &[&becalm[..], command].concat())
    }

    /// Runs a command while the tree is mounted.
    pub(crate) fn mounted(&self, switches: &str, command: &[&str]) -> (String, Vec<u32>) {
        self.mounted_as(&[], switches, command)
    }

    /// Runs a command while the tree is mounted with more options.
    pub(crate) fn mounted_as(
        &self,
        options: &[&str],
        switches: &str,
        command: &[&str],
    ) -> (String, Vec<u32>) {
        let log = self.at("log");
        let _ = fs::remove_file(&log);
        let mut lab = Command::new(env!("CARGO_BIN_EXE_lab"));
        lab.args(["slowfs", "--delay-us", "0", "--forgetful", "--writable"]).args(options);
        lab.arg("--requests");
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
    pub(crate) fn lookups(&self) -> u64 {
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
    pub(crate) fn record(&self) -> Option<String> {
        let entries = fs::read_dir(self.at("copies")).unwrap().flatten();
        let mut records = entries.map(|entry| entry.path());
        let record = records.find(|path| path.extension().is_some_and(|it| it == "tree"))?;
        fs::read_to_string(record).ok()
    }

    /// Runs a script until the record has a text; fails if it prints anything else meanwhile.
    pub(crate) fn learn(&self, script: &str, wanted: &str, printed: &str) {
        self.learn_by(wanted, || assert_eq!(self.run("", script).0, printed));
    }

    /// Learns a script, and runs it once more; it must print the same. Returns the numbers of paths of the
    /// tables of that run.
    pub(crate) fn learned(&self, script: &str, wanted: &str, printed: &str) -> Vec<u32> {
        self.learn(script, wanted, printed);
        let (again, paths) = self.run("", script);
        assert_eq!(again, printed);
        paths
    }

    /// Starts a program until the record has a text.
    pub(crate) fn learn_by(&self, wanted: &str, start: impl Fn()) {
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

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Compiles a C program or library.
pub(crate) fn compile(source: &str, to: &Path, flags: &[&str]) {
    let file = to.with_extension("c");
    fs::write(&file, source).unwrap();
    let made = Command::new("cc").arg(&file).args(["-o", text(to)]).args(flags).status().unwrap();
    assert!(made.success(), "{}", to.display());
    fs::remove_file(file).unwrap();
}

pub(crate) fn becalm() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_lab")).with_file_name("becalm")
}
