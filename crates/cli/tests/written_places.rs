//! becalm writes only where the user told it to, or where nobody else could have chosen the place.

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use becalm_testing::skip;
use support::store::{Store, nothing_to_test_with, text};
use support::{Ran, becalm, chain, run};

/// The user who plants links.
const JOE: u32 = 1234;

/// Returns the store, or `None` if this user cannot give files to another one.
fn store_of_root() -> Option<Store> {
    if nothing_to_test_with() {
        return None;
    }
    if !rustix::process::geteuid().is_root() {
        skip("only root can make the files of another user");
        return None;
    }
    Some(Store::new())
}

fn of_joe(path: &Path) -> &Path {
    lchown(path, Some(JOE), Some(JOE)).expect("given away");
    path
}

fn plant(target: &Path, link: &Path) {
    symlink(target, link).expect("planted");
    of_joe(link);
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).expect("read").flatten();
    entries.map(|entry| entry.path()).collect()
}

/// The only index in a directory.
fn index_in(dir: &Path) -> PathBuf {
    let is_index = |path: &PathBuf| path.extension().is_some_and(|end| end == "so");
    entries(dir).into_iter().find(is_index).expect("an index")
}

#[track_caller]
fn assert_refused(ran: &Ran, words: &str) {
    assert!(ran.code != Some(0) && ran.stderr.contains(words), "{words}: {ran:?}");
}

/// `sudo -E becalm run`: the names in the cache can be predicted, and the links were there first.
#[test]
fn root_with_the_home_of_another_user_follows_no_link_there_and_uses_its_own_cache() {
    let Some(store) = store_of_root() else { return };
    let (home, own, app) = (store.path("home"), store.path("own"), store.app());
    // A recorder that goes on would write to the cache while it is removed.
    let started = run(&mut store.becalm(&["run", "--no-ahead", "--strict", "--", text(&app)]));
    assert_eq!(started.stdout, "one two\n");
    let cache = home.join(".cache/becalm/programs");
    let index = index_in(&cache);
    fs::remove_dir_all(&cache).expect("removed");
    fs::create_dir_all(&cache).expect("made");
    let victims = ["lock", "failed", "wanted"].map(|what| {
        let victim = store.path(what);
        plant(&victim, &PathBuf::from(format!("{}.{what}", text(&index))));
        victim
    });
    fs::write(&victims[1], "precious\n").expect("written");
    for dir in cache.ancestors().take(4) {
        of_joe(dir);
    }
    fs::create_dir(&own).expect("made");
    // A program without an index that can be made writes the reason.
    let script = "mount --bind \"$OWN\" /root || exit 77\n\
        \"$US\" run --strict -- \"$APP\"; \"$US\" index \"$ROOT\" >&2; echo $?\n";
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "sh", "-c", script]).env("HOME", &home).env("OWN", &own);
    for variable in ["XDG_CACHE_HOME", "XDG_DATA_HOME", "LD_AUDIT", "LD_LIBRARY_PATH", "BECALM"] {
        unshare.env_remove(variable);
    }
    // The checkout itself may be below /root.
    let us = store.path("becalm");
    fs::copy(env!("CARGO_BIN_EXE_becalm"), &us).expect("copied");
    unshare.env("US", &us).env("APP", &app).env("ROOT", store.root());
    let ran = run(&mut unshare);
    if ran.code == Some(77) || ran.stderr.contains("unshare") {
        skip("no mount namespaces for this user");
        return;
    }
    assert_eq!(ran.stdout, "one two\n0\n", "{ran:?}");
    assert!(!victims[0].exists() && !victims[2].exists(), "made through a link");
    assert_eq!(fs::read_to_string(&victims[1]).expect("read"), "precious\n");
    assert_eq!(entries(&cache).len(), 3, "joe's cache has only joe's links");
    assert!(!home.join(".local").exists());
    index_in(&own.join(".cache/becalm/programs"));
    assert!(own.join(".local/share/becalm/index.so").exists());
}

#[test]
fn a_cache_that_others_can_write_to_is_not_written_and_the_program_starts() {
    let Some(store) = store_of_root() else { return };
    let (shared, app) = (store.path("shared"), store.app());
    fs::create_dir(&shared).expect("made");
    let start = || {
        let mut command = store.becalm(&["run", "--", text(&app)]);
        run(command.env("XDG_CACHE_HOME", &shared))
    };
    let cache = shared.join("becalm");
    for (mode, planted, words) in [
        (0o777, None, "may write"),
        (0o775, None, "may write"),
        (0o1777, Some(false), "belongs to user 1234"),
        (0o1777, Some(true), "belongs to user 1234"),
    ] {
        set_mode(&shared, mode);
        match planted {
            Some(true) => plant(&store.path("other"), &cache),
            Some(false) => {
                fs::create_dir(&cache).expect("made");
                of_joe(&cache);
            }
            None => {}
        }
        let ran = start();
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "one two\n"), "{ran:?}");
        assert!(ran.stderr.contains(words), "{ran:?}");
        let _ = fs::remove_dir(&cache).or_else(|_| fs::remove_file(&cache));
        assert_eq!(entries(&shared).len(), 0, "{mode:o}");
        assert!(!store.path("other/programs").exists());
    }
    // A name of ours in a sticky directory.
    let mut strict = store.becalm(&["run", "--strict", "--", text(&app)]);
    let ran = run(strict.env("XDG_CACHE_HOME", &shared));
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("one two\n", ""));
    index_in(&cache.join("programs"));
}

/// A clock that was wrong once must not decide for years.
#[test]
fn a_record_or_an_index_of_the_future_is_not_trusted_and_old_records_are_removed() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let app = store.app();
    let strict = || run(&mut store.becalm(&["run", "--strict", "--", text(&app)]));
    assert_eq!(strict().stdout, "one two\n");
    let cache = store.path("home/.cache/becalm/programs");
    let index = index_in(&cache);
    let set_time = |path: &Path, time: SystemTime| {
        fs::File::open(path).and_then(|file| file.set_modified(time)).expect("set");
    };
    let days = |number: u64| Duration::from_secs(number * 86_400);
    let record = |name: &str, time: SystemTime| {
        let path = index.with_file_name(format!("{name}.failed"));
        fs::write(&path, "a reason").expect("written");
        set_time(&path, time);
        path
    };
    let now = SystemTime::now();
    let own =
        record(index.file_name().and_then(|name| name.to_str()).expect("UTF-8"), now + days(9));
    let (old, recent) = (record("old-1.so", now - days(1)), record("new-1.so", now));
    fs::remove_file(&index).expect("removed");
    let ran = strict();
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("one two\n", ""));
    assert!(index.exists() && !own.exists() && !old.exists() && recent.exists());
    // An index of the future is compared with the files again, and gets the time of now.
    set_time(&index, now + days(9));
    assert_eq!(run(&mut store.becalm(&["run", "--", text(&app)])).stdout, "one two\n");
    let time = || fs::metadata(&index).and_then(|facts| facts.modified()).expect("there");
    let is_busy =
        || entries(&cache).iter().any(|path| path.extension().is_some_and(|e| e == "lock"));
    let began = Instant::now();
    while time() > now + days(1) || is_busy() {
        assert!(began.elapsed() < Duration::from_secs(120), "not compared");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_planted_directory_beside_an_index_is_not_followed() {
    let Some(store) = store_of_root() else { return };
    let (project, target, root) = (store.path("project"), store.path("target"), store.root());
    fs::create_dir(&project).expect("made");
    fs::create_dir(&target).expect("made");
    set_mode(&project, 0o2775);
    of_joe(&project);
    let index = project.join("j.so");
    let make = || run(&mut store.becalm(&["index", text(&root), "-o", text(&index)]));
    let beside = project.join("j.so.d");
    // Joe can also move a link of root's here.
    for is_of_joe in [true, false] {
        symlink(&target, &beside).expect("planted");
        if is_of_joe {
            of_joe(&beside);
        }
        assert_refused(&make(), "j.so.d");
        assert_eq!((entries(&target).len(), index.exists()), (0, false));
        fs::remove_file(&beside).expect("removed");
    }
    // The index itself, and the directory that it is in.
    plant(&target.join("i.so"), &index);
    assert_refused(&make(), "symbolic link of user 1234");
    fs::remove_file(&index).expect("removed");
    let through = project.join("through");
    plant(&target, &through);
    let output = through.join("i.so");
    let ran = run(&mut store.becalm(&["index", text(&root), "-o", text(&output)]));
    assert_refused(&ran, "symbolic link of user 1234");
    assert_eq!(entries(&target).len(), 0);
    // The project of a group is written to, through our own links too.
    assert_eq!(make().code, Some(0));
    let ours = store.path("ours");
    symlink(&project, &ours).expect("linked");
    let output = ours.join("k.so");
    let ran = run(&mut store.becalm(&["index", text(&root), "-o", text(&output)]));
    assert!(ran.code == Some(0) && project.join("k.so.d/x86_64").is_symlink(), "{ran:?}");
}

#[test]
fn fix_and_undo_follow_no_link_of_another_user_and_serve_the_project_of_a_group() {
    if store_of_root().is_none() {
        return;
    }
    let store = chain::Store::new();
    let (root, app) = (store.root(), store.app());
    let (target, package) = (store.dir.path().join("target"), root.join("ccc-app"));
    fs::create_dir_all(&target).expect("made");
    fs::create_dir_all(package.join("lib")).expect("made");
    for dir in [&package, &package.join("lib"), &package.join("bin")] {
        set_mode(dir, 0o2775);
        of_joe(dir);
    }
    let farms = package.join("lib/becalm-farm");
    let fix = |path: &Path| {
        let arguments = ["fix", "--with", "farm", "--store", text(&root), text(path)];
        run(becalm().args(arguments))
    };
    let before = fs::read(&app).expect("read");
    let is_as_before = || fs::read(&app).expect("read") == before;
    for is_of_joe in [true, false] {
        symlink(&target, &farms).expect("planted");
        if is_of_joe {
            of_joe(&farms);
        }
        assert_refused(&fix(&app), "becalm-farm");
        assert!(entries(&target).is_empty() && is_as_before());
        fs::remove_file(&farms).expect("removed");
    }
    let ran = fix(&app);
    assert!(ran.code == Some(0) && farms.is_dir(), "{ran:?}");
    let undo = |path: &Path| run(becalm().args(["undo", text(path)]));
    assert_eq!(undo(&app).code, Some(0));
    assert!(is_as_before() && !farms.exists());
    // A directory on the way to the file.
    let through = store.dir.path().join("through");
    symlink(app.parent().expect("a folder"), &through).expect("linked");
    let named = through.join("app");
    let ran = fix(&named);
    assert!(ran.code == Some(0) && !is_as_before(), "our own link: {ran:?}");
    of_joe(&through);
    assert_refused(&undo(&named), "symbolic link of user 1234");
    assert!(!is_as_before());
    assert_eq!(undo(&app).code, Some(0));
    assert!(is_as_before());
}

#[test]
fn the_file_of_a_report_is_not_written_through_the_link_of_another_user() {
    let Some(store) = store_of_root() else { return };
    let (app, precious) = (store.app(), store.path("precious"));
    let (link, own) = (store.path("joes"), store.path("own"));
    fs::write(&precious, "precious\n").expect("written");
    plant(&precious, &link);
    symlink(store.path("new"), &own).expect("linked");
    let commands = |output: &Path| {
        let output = text(output).to_owned();
        let app = text(&app).to_owned();
        [
            vec!["trace".to_owned(), "-o".to_owned(), output.clone(), "--".to_owned(), app.clone()],
            vec!["report".to_owned(), app.clone(), "-o".to_owned(), output.clone()],
            vec!["bench".to_owned(), "--export".to_owned(), format!("json:{output}"), app],
        ]
    };
    for arguments in commands(&link) {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        assert_refused(&run(&mut store.becalm(&arguments)), "symbolic link of user 1234");
        assert_eq!(fs::read_to_string(&precious).expect("read"), "precious\n");
    }
    for arguments in &commands(&own)[..2] {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let ran = run(&mut store.becalm(&arguments));
        assert!(ran.code == Some(0) && own.is_symlink(), "{ran:?}");
        assert!(fs::metadata(store.path("new")).expect("written").size() > 0);
        fs::remove_file(store.path("new")).expect("removed");
    }
    // Descriptors have no path but their links.
    let ran = run(&mut store.becalm(&["trace", "-o", "/dev/stdout", "--", text(&app)]));
    assert!(ran.code == Some(0) && ran.stdout.contains("one two"), "{ran:?}");
    let _ = chown(&precious, None, None);
}
