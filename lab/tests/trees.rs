//! Tests `becalm run` with programs whose files are on a slow file system.

use std::fs::{self, File, FileTimes};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

/// A tree, its mount point, a home and a folder for records and copies.
struct Scene(tempfile::TempDir);

impl Scene {
    /// Returns `None` and prints the reason if the test cannot run here.
    fn new() -> Option<Self> {
        let root = nix::unistd::geteuid().is_root();
        if !root || !Path::new("/dev/fuse").exists() || !becalm().exists() {
            assert!(becalm_testing::skipped("no root, no /dev/fuse, or becalm was not built"));
            return None;
        }
        // Copies need a file system of this machine, also if the temporary directory is another one.
        let scene = Self(tempfile::tempdir_in("/var/tmp").unwrap());
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

    /// Runs a script by becalm in the mount; returns what it prints and the numbers of slots of its tables.
    fn run(&self, switches: &str, script: &str) -> (String, Vec<u32>) {
        let log = self.at("log");
        let _ = fs::remove_file(&log);
        let mut lab = Command::new(env!("CARGO_BIN_EXE_lab"));
        lab.args(["slowfs", "--delay-us", "0", "--forgetful", "--writable"]);
        lab.args([self.at("tree"), self.at("mount")]).arg("--").arg(becalm());
        lab.args(["run", "--", "/bin/sh", "-c", script])
            .arg(self.at("mount/script"))
            .arg(self.at("mount"));
        lab.env("HOME", self.at("home")).env_remove("XDG_CACHE_HOME").current_dir("/");
        lab.env("BECALM_CACHE", self.at("copies")).env("BECALM_TRUST_TIMES", self.at("mount"));
        lab.env("BECALM", format!("{switches}log:{}", log.display()));
        let done = lab.output().unwrap();
        assert!(done.status.success(), "{done:?}");
        let log = fs::read_to_string(log).unwrap_or_default();
        let slots = log.lines().filter_map(|line| line.split_once("\ttrees\t0\tserved\t"));
        let slots = slots.map(|(_, slots)| slots.parse().unwrap()).collect();
        (String::from_utf8(done.stdout).unwrap(), slots)
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
        let began = Instant::now();
        while !self.record().is_some_and(|record| record.contains(wanted)) {
            assert_eq!(self.run("", script).0, printed);
            let is_late = began.elapsed() > Duration::from_secs(60);
            assert!(!is_late, "no {wanted} in {:?}", self.record());
            // The index is made, and copies need two seconds.
            sleep(Duration::from_secs(3));
        }
    }
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
    scene.learn(script, "dir/new", printed);
    let (again, slots) = scene.run("", script);
    assert_eq!(again, printed);
    // Only the shell has a table, not its children, and the table has paths.
    assert!(matches!(slots[..], [slots] if slots >= 8), "{slots:?}");
    assert_eq!(scene.run("notrees,", script), (printed.to_owned(), vec![]));
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
