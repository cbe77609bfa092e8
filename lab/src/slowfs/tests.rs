//! Tests that the view shows existing files and looks up absent names again.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use fuser::BackgroundSession;

use super::*;

/// Returns true and prints the reason if the test cannot run here. Fails if all tests are required.
fn skip() -> bool {
    let root = nix::unistd::geteuid().is_root();
    let Some(reason) = why_not().or_else(|| (!root).then(|| "not root".to_owned())) else {
        return false;
    };
    becalm_testing::skipped(&reason)
}

/// The session is dropped first, because a mount point cannot be removed.
struct Mounted {
    _session: BackgroundSession,
    source: tempfile::TempDir,
    point: tempfile::TempDir,
    waits: Arc<AtomicU64>,
}

fn mounted() -> Mounted {
    let source = tempfile::tempdir().expect("a scratch directory");
    fs::create_dir(source.path().join("dir")).expect("made");
    fs::write(source.path().join("dir/file"), vec![7; 300_000]).expect("written");
    std::os::unix::fs::symlink("dir/file", source.path().join("link")).expect("linked");
    let waits = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&waits);
    let wait = Box::new(move || {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    let (point, session) = serve(source.path(), wait);
    Mounted { _session: session, source, point, waits }
}

fn serve(source: &Path, wait: Wait) -> (tempfile::TempDir, BackgroundSession) {
    let point = tempfile::tempdir().expect("a scratch directory");
    let view = View::new(File::open(source).expect("opened"), wait, false).expect("a directory");
    let session = start(view, point.path()).expect("mounted").spawn().expect("served");
    (point, session)
}

#[test]
fn what_is_there_is_seen_and_nothing_can_be_written() {
    if skip() {
        return;
    }
    let view = mounted();
    let at = |name: &str| view.point.path().join(name);
    assert_eq!(fs::read(at("link")).expect("read"), vec![7; 300_000]);
    assert_eq!(fs::read_link(at("link")).expect("read"), Path::new("dir/file"));
    let mut names: Vec<OsString> = fs::read_dir(view.point.path())
        .expect("listed")
        .map(|e| e.expect("one").file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["dir", "link"]);
    assert!(fs::write(at("new"), "x").is_err());
    assert!(fs::metadata(at("absent")).is_err());
}

#[test]
fn an_absent_name_that_appears_is_seen_for_it_is_asked_for_again() {
    if skip() {
        return;
    }
    let view = mounted();
    let late = view.point.path().join("late");
    assert!(!late.exists());
    fs::write(view.source.path().join("late"), "x").expect("written");
    assert!(late.exists());
}

#[test]
fn an_absent_name_waits_each_time_and_one_that_is_there_once() {
    if skip() {
        return;
    }
    let view = mounted();
    let waited = || view.waits.load(Ordering::SeqCst);
    let look = |name: &str| fs::symlink_metadata(view.point.path().join(name));
    let before = waited();
    for _ in 0..10 {
        assert!(look("absent").is_err());
    }
    assert_eq!(waited() - before, 10, "absent names were remembered");
    let before = waited();
    for _ in 0..10 {
        assert!(look("link").is_ok());
    }
    assert_eq!(waited() - before, 1, "names that are there were asked for again");
}

#[test]
fn as_many_names_of_a_directory_are_looked_up_at_once_as_there_are_threads() {
    if skip() {
        return;
    }
    let source = tempfile::tempdir().expect("a scratch directory");
    // No lookup is answered before all of them have arrived.
    let arrived = Arc::new((Mutex::new(0), Condvar::new()));
    let waiting = Arc::clone(&arrived);
    let wait = Box::new(move || {
        let mut count = waiting.0.lock().expect("not poisoned");
        *count += 1;
        waiting.1.notify_all();
        let limit = Duration::from_secs(60);
        drop(waiting.1.wait_timeout_while(count, limit, |count| *count < THREADS));
    });
    let (point, session) = serve(source.path(), wait);
    thread::scope(|scope| {
        for number in 0..THREADS {
            let path = point.path().join(number.to_string());
            scope.spawn(move || assert!(fs::symlink_metadata(path).is_err()));
        }
    });
    assert_eq!(*arrived.0.lock().expect("not poisoned"), THREADS);
    drop(session);
}
