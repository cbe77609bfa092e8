//! Tests `lab slowfs` with a command.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::Duration;

/// A source with a file, a mount point, and a directory for what a command writes.
struct Scene(tempfile::TempDir);

impl Scene {
    /// Returns `None` and prints the reason if the test cannot run here.
    fn new() -> Option<Self> {
        let root = nix::unistd::geteuid().is_root();
        if !root || !Path::new("/dev/fuse").exists() {
            assert!(becalm_testing::skipped("no root or no /dev/fuse"));
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        for name in ["source", "source/dir", "mount"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        fs::write(dir.path().join("source/file"), "content").unwrap();
        Some(Self(dir))
    }

    /// Runs a shell's script in the scene's directory.
    fn run(&self, options: &[&str], script: &str) -> Output {
        let mut lab = Command::new(env!("CARGO_BIN_EXE_lab"));
        lab.arg("slowfs").args(options).args(["source", "mount", "--", "sh", "-c", script]);
        // The path finds the processes of the test.
        lab.arg(self.0.path()).current_dir(self.0.path()).output().unwrap()
    }

    /// Returns whether a process has the scene's path among its arguments.
    fn has_processes(&self) -> bool {
        let path = self.0.path().to_str().unwrap();
        fs::read_dir("/proc").unwrap().flatten().any(|process| {
            let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(path)
        })
    }
}

#[test]
fn a_slow_mounts_directories_have_still_times_for_a_command() {
    let Some(scene) = Scene::new() else { return };
    let done = scene.run(&["--still-times"], "stat -c '%X %Y %Z' mount/dir; cat mount/file");
    assert_eq!(String::from_utf8_lossy(&done.stdout), "1 1 1\ncontent", "{done:?}");
}

#[test]
fn changes_through_a_writable_mount_are_made_in_the_source() {
    let Some(scene) = Scene::new() else { return };
    let script = "set -e; cd mount; printf content >new; printf more >>new; cp -p new dir/copy
        mkdir dir/sub; echo x >dir/sub/f; ln -s ../new dir/link; ln new dir/hard; mv dir other
        truncate -s 5 other/copy; chmod 640 other/copy; touch -d @7.5 other/copy
        rm other/sub/f; rmdir other/sub; cat other/link; stat -c '%a %s %.Y %h' other/copy new";
    let done = scene.run(&["--writable"], script);
    let told = String::from_utf8_lossy(&done.stdout);
    let at = |name: &str| scene.0.path().join("source").join(name);
    let text = |name: &str| fs::read_to_string(at(name)).unwrap();
    assert!(done.status.success() && told.starts_with("contentmore640 5 7.5"), "{done:?}");
    assert!(told.lines().nth(1).is_some_and(|line| line.ends_with(" 2")), "{done:?}");
    assert_eq!([text("new"), text("other/copy")], ["contentmore", "conte"]);
    assert!(!at("dir").exists() && !at("other/sub").exists());
}

#[test]
fn an_edit_of_the_source_with_the_same_size_and_time_is_read_through_a_writable_mount() {
    let Some(scene) = Scene::new() else { return };
    let edit = "cat mount/file; touch -r source/file time; printf changed >source/file
        touch -r time source/file; cat mount/file";
    let done = scene.run(&["--writable", "--forgetful"], edit);
    assert_eq!(String::from_utf8_lossy(&done.stdout), "contentchanged", "{done:?}");
}

#[test]
fn a_slow_mounts_command_ends_with_its_own_status() {
    let Some(scene) = Scene::new() else { return };
    assert_eq!(scene.run(&[], "exit 7").status.code(), Some(7));
    assert_eq!(scene.run(&[], "kill -TERM $$").status.signal(), Some(15));
}

#[test]
fn a_slow_mount_serves_a_process_that_is_left_behind_and_ends_with_it() {
    let Some(scene) = Scene::new() else { return };
    // The pipes of the test end though the server and the process go on.
    let script = "(while [ ! -e go ]; do sleep .02; done; cat mount/file >part; mv part out) \
                  </dev/null >/dev/null 2>&1 &";
    let done = scene.run(&[], script);
    assert!(done.status.success(), "{done:?}");
    assert!(scene.has_processes() && !scene.0.path().join("out").exists());
    fs::write(scene.0.path().join("go"), "").unwrap();
    while scene.has_processes() {
        sleep(Duration::from_millis(10));
    }
    assert_eq!(fs::read_to_string(scene.0.path().join("out")).unwrap(), "content");
    assert!(!scene.0.path().join("mount/file").exists());
}
