//! The view shows what is there, in its own time, and asks again for what is not. No
//! test looks at how long anything took, but for the delay that a lookup must have.

use std::fs;
use std::time::Instant;

use super::*;

/// True where the test cannot be made here; says why, and fails where all tests must be.
fn skip() -> bool {
    let root = nix::unistd::geteuid().is_root();
    let Some(reason) = why_not().or_else(|| (!root).then(|| "not root".to_owned())) else {
        return false;
    };
    assert!(std::env::var_os("BECALM_REQUIRE_ALL").is_none_or(|v| v != "1"), "skipped: {reason}");
    eprintln!("skipped: {reason}");
    true
}

struct Mounted {
    source: tempfile::TempDir,
    point: tempfile::TempDir,
    _session: BackgroundSession,
}

fn mounted(delay: Duration) -> Mounted {
    let source = tempfile::tempdir().expect("a scratch directory");
    let point = tempfile::tempdir().expect("a scratch directory");
    fs::create_dir(source.path().join("dir")).expect("made");
    fs::write(source.path().join("dir/file"), vec![7; 300_000]).expect("written");
    std::os::unix::fs::symlink("dir/file", source.path().join("link")).expect("linked");
    let root = File::open(source.path()).expect("opened");
    let session = start(root, point.path(), delay, false).expect("mounted");
    Mounted { source, point, _session: session }
}

#[test]
fn what_is_there_is_seen_and_nothing_can_be_written() {
    if skip() {
        return;
    }
    let view = mounted(Duration::ZERO);
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
    let view = mounted(Duration::ZERO);
    let late = view.point.path().join("late");
    assert!(!late.exists());
    fs::write(view.source.path().join("late"), "x").expect("written");
    assert!(late.exists());
}

#[test]
fn each_lookup_of_an_absent_name_waits() {
    if skip() {
        return;
    }
    let delay = Duration::from_millis(5);
    let view = mounted(delay);
    let began = Instant::now();
    for _ in 0..10 {
        assert!(!view.point.path().join("absent").exists());
    }
    assert!(began.elapsed() >= delay * 10, "absent names were remembered");
}
