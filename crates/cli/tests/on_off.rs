//! The home directory: `becalm off` leaves nothing in it, also after a killed `on` or `off` and without a record.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::store::{Store, nothing_to_test_with, text};
use support::{is_missing, run};

struct Scene {
    store: Store,
    home: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let store = Store::new();
        let home = store.path("home");
        fs::create_dir_all(home.join(".config/fish")).expect("made");
        Self { store, home }
    }

    /// Returns a command, with a fault by `strace` if there is one.
    fn command(&self, fault: Option<&str>, arguments: &[&str]) -> Command {
        let us = env!("CARGO_BIN_EXE_becalm");
        let mut command = Command::new(if fault.is_some() { "strace" } else { us });
        if let Some(fault) = fault {
            command.args(["-f", "-qq", "-o", "/dev/null", "-e", fault, us]);
        }
        command.args(arguments).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", &self.home);
        command.env("BECALM_CACHE", self.store.path("cache")).env("SHELL", "/bin/sh");
        command
    }

    fn on(&self) {
        let ran = run(&mut self.command(None, &["on", text(&self.store.app())]));
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }

    /// Returns what there is in the home directory after `off`.
    fn after_off(&self) -> BTreeSet<PathBuf> {
        let ran = run(&mut self.command(None, &["off"]));
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
        let (mut found, mut folders) = (BTreeSet::new(), vec![self.home.clone()]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("listed").flatten() {
                let path = entry.path();
                folders.extend(path.is_dir().then(|| path.clone()));
                found.insert(path.strip_prefix(&self.home).expect("below").to_owned());
            }
        }
        found
    }
}

/// True for a path that was not there before. An `off` without a record may remove empty directories.
fn is_left(path: &Path) -> bool {
    ![".config", ".config/fish"].iter().any(|there| path.as_os_str() == *there)
}

#[test]
fn off_without_a_record_leaves_nothing() {
    if nothing_to_test_with() {
        return;
    }
    let scene = Scene::new();
    let record = scene.home.join(".local/state/becalm/on/on.json");
    for text in [None, Some("{")] {
        scene.on();
        fs::remove_file(&record).expect("removed");
        if let Some(text) = text {
            fs::write(&record, text).expect("written");
        }
        let left = scene.after_off();
        assert!(!left.iter().any(|path| is_left(path)), "{left:?}");
        let counts = fs::read_dir(scene.store.path("cache")).expect("listed").count();
        assert_eq!(counts, 0, "files with numbers of starts");
    }
}

#[test]
fn off_after_a_killed_on_or_off_leaves_nothing() {
    if nothing_to_test_with() {
        return;
    }
    if is_missing("strace", "strace") {
        return;
    }
    let scene = Scene::new();
    let app = scene.store.app();
    let made = "rename,renameat,renameat2,mkdir,mkdirat,symlinkat";
    for (calls, arguments) in [(made, &["on", text(&app)][..]), ("unlink,unlinkat", &["off"])] {
        for number in 1.. {
            if arguments[0] == "off" {
                scene.on();
            }
            let fault = format!("inject={calls}:signal=KILL:when={number}");
            let ran = run(&mut scene.command(Some(&fault), arguments));
            let mut left = scene.after_off();
            // Without the folder in them, nothing says that these were made.
            let above = [".local/state/becalm", ".local/state", ".local"].map(PathBuf::from);
            let has_folder = left.contains(Path::new(".local/state/becalm/on"));
            left.retain(|path| is_left(path) && (has_folder || !above.contains(path)));
            assert!(left.is_empty(), "{calls} {number}: {left:?} {ran:?}");
            if ran.code == Some(0) {
                assert!(number > 5, "{ran:?}");
                break;
            }
        }
    }
}

#[test]
fn a_profile_with_two_names_and_the_home_of_another_user_stay() {
    if nothing_to_test_with() {
        return;
    }
    let scene = Scene::new();
    let (home, app) = (&scene.home, scene.store.app());
    fs::write(home.join(".profile"), "").expect("written");
    fs::hard_link(home.join(".profile"), home.join("other")).expect("linked");
    let ran = run(&mut scene.command(None, &["on", text(&app)]));
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("hard links") && !ran.stderr.contains("--hard"), "{ran:?}");
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(home, Some(65534), None).expect("given away");
        let ran = run(&mut scene.command(None, &["on", "--dry-run", text(&app)]));
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.stderr.contains("another user's home directory"), "{ran:?}");
    }
}
