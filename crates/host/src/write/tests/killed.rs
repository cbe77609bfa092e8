//! Kills a real process at arbitrary times, and fills a real disk.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::support::{anew, applied, content, edit, in_place, recovered, snapshot, undo};
use crate::write::{WriteError, WriteOptions, Writer};
use becalm_testing::skip;

/// Number of kills for each method of writing.
const ROUNDS: u64 = 60;
const FILES: usize = 4;
const TREE: &str = "BECALM_TEST_KILLED";

/// Edits and undoes the edit in an endless loop; this is the process to be killed.
#[test]
fn killed_process() {
    let Some(tree) = std::env::var_os(TREE) else { return };
    let tree = Path::new(&tree);
    let options = if tree.ends_with("in-place") { in_place() } else { anew() };
    let writer = Writer::new(options);
    loop {
        let mut batch = Vec::new();
        for number in 0..FILES {
            let path = tree.join(format!("f{number}"));
            let now = fs::read(&path).unwrap();
            let patch = undo(&now).unwrap_or_else(|| edit(&now));
            batch.push(writer.prepare(writer.open(&path).unwrap(), patch).unwrap());
        }
        writer.commit(batch).into_iter().for_each(Result::unwrap);
        writer.write_new(&tree.join("made"), &content(99)[..9999], 0o644, |_| true).unwrap();
        assert!(writer.remove_made(&tree.join("made"), |_| true).unwrap());
    }
}

fn start(tree: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "write::tests::killed::killed_process", "--nocapture"])
        .env(TREE, tree)
        .current_dir("/")
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn a_killed_process_leaves_files_old_new_or_restorable() {
    for name in ["anew", "in-place"] {
        let place = tempfile::tempdir().unwrap();
        let tree = place.path().join(name);
        fs::create_dir(&tree).unwrap();
        for number in 0..FILES {
            fs::write(tree.join(format!("f{number}")), content(number)).unwrap();
        }
        let mut between = 0;
        for round in 0..ROUNDS {
            let mut child = start(&tree);
            std::thread::sleep(Duration::from_micros(15_000 + round * 1_337 % 40_000));
            child.kill().unwrap();
            let status = child.wait().unwrap();
            assert_eq!(status.code(), None, "the process ended by itself: {status}");
            between += check_and_repair(&tree, name == "in-place");
        }
        eprintln!("{name}: {ROUNDS} kills, {between} partly written files");
    }
}

/// Checks all files and restores partly written ones. Returns the number of those.
fn check_and_repair(tree: &Path, between_allowed: bool) -> usize {
    let writer = Writer::new(in_place());
    let mut between = 0;
    for number in 0..FILES {
        let path = tree.join(format!("f{number}"));
        let now = fs::read(&path).unwrap();
        let old = content(number);
        if now == old || now == applied(&edit(&old), &old) {
            continue;
        }
        between += 1;
        assert!(between_allowed, "{}: neither old nor new", path.display());
        assert_eq!(recovered(&now), old);
        writer.apply(writer.open(&path).unwrap(), undo(&now).unwrap()).unwrap();
    }
    writer.clean(tree).unwrap();
    for (path, bytes) in snapshot(tree) {
        let name = path.file_name().unwrap().to_str().unwrap();
        let made = name == "made" && bytes == content(99)[..9999];
        assert!(name.starts_with('f') || made, "left behind: {}", path.display());
    }
    between
}

/// A small file system, which is unmounted when it is dropped.
struct Small(tempfile::TempDir);

impl Small {
    fn mount() -> Option<Self> {
        let place = tempfile::tempdir().unwrap();
        let options = ["-t", "tmpfs", "-o", "size=256k", "none"];
        let mount = Command::new("mount").args(options).arg(place.path()).output();
        mount.is_ok_and(|output| output.status.success()).then_some(Self(place))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn on_a_full_disk_files_stay_as_they_were() {
    let Some(small) = Small::mount() else {
        return skip("a tmpfs cannot be mounted here");
    };
    let dir = small.0.path();
    let path = dir.join("file");
    fs::write(&path, content(0)).unwrap();
    let mut filler = Vec::new();
    for number in 0.. {
        filler.push(dir.join(format!("filler{number}")));
        if fs::write(filler.last().unwrap(), vec![1; 4096]).is_err() {
            break;
        }
    }
    let ways = [anew(), in_place(), WriteOptions { keep_times: true, ..in_place() }];
    for options in ways {
        let before = snapshot(dir);
        let writer = Writer::new(options);
        let file = writer.open(&path).unwrap();
        let outcome = writer.apply(file, edit(&content(0)));
        assert!(matches!(outcome, Err(WriteError::Failed { .. })));
        assert_eq!(snapshot(dir), before);
    }
    assert!(
        Writer::new(anew()).write_new(&dir.join("new"), &content(1), 0o644, |_| false).is_err()
    );
    assert!(!dir.join("new").exists());
    filler.iter().for_each(|path| fs::remove_file(path).unwrap());
    let writer = Writer::new(anew());
    writer.apply(writer.open(&path).unwrap(), edit(&content(0))).unwrap();
    assert_eq!(snapshot(dir).len(), 1);
}
