//! Tests of the view: what is there, what is not, what waits, and what fails.

use std::fs::{self, FileTimes};
use std::io;
use std::os::unix::fs::{DirEntryExt, FileExt, MetadataExt};
use std::os::unix::process::ExitStatusExt;
use std::sync::{Arc, Condvar, Mutex};
use std::time::SystemTime;

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
    session: BackgroundSession,
    point: tempfile::TempDir,
    source: Arc<tempfile::TempDir>,
    waits: Arc<Mutex<Vec<Step>>>,
}

impl Mounted {
    fn at(&self, name: &str) -> PathBuf {
        self.point.path().join(name)
    }

    fn waits(&self, step: Step) -> usize {
        self.waits.lock().expect("not poisoned").iter().filter(|one| **one == step).count()
    }
}

impl Default for Options {
    /// Returns the options of a view in which nothing is slow.
    fn default() -> Self {
        Self {
            wait: Box::new(|_| {}),
            read_wait: None,
            names_kept: REMEMBERED,
            attributes_kept: REMEMBERED,
            has_still_times: false,
            is_writable: false,
            check: Box::new(|_| Ok(())),
        }
    }
}

fn source() -> Arc<tempfile::TempDir> {
    let source = tempfile::tempdir().expect("a scratch directory");
    fs::create_dir(source.path().join("dir")).expect("made");
    fs::write(source.path().join("dir/file"), vec![7; 300_000]).expect("written");
    std::os::unix::fs::symlink("dir/file", source.path().join("link")).expect("linked");
    Arc::new(source)
}

fn mounted() -> Mounted {
    mounted_with(source(), REMEMBERED, Box::new(|_| Ok(())))
}

/// Mounts a view on which the requests for a directory and for all below it fail, after a number of them.
fn failing(failure: Failure, after: u64) -> Mounted {
    let seen = AtomicU64::new(0);
    let check = move |path: &Path| match path.starts_with("dir") {
        true if seen.fetch_add(1, Ordering::Relaxed) >= after => Err(failure.refused()),
        _ => Ok(()),
    };
    mounted_with(source(), Duration::ZERO, Box::new(check))
}

fn mounted_with(
    source: Arc<tempfile::TempDir>,
    attributes_kept: Duration,
    check: Check,
) -> Mounted {
    let waits = Arc::new(Mutex::new(Vec::new()));
    let counted = Arc::clone(&waits);
    let wait = Box::new(move |step| counted.lock().expect("not poisoned").push(step));
    let (point, session) = serve(source.path(), wait, attributes_kept, check);
    Mounted { session, point, source, waits }
}

fn serve(
    source: &Path,
    wait: Wait,
    attributes_kept: Duration,
    check: Check,
) -> (tempfile::TempDir, BackgroundSession) {
    let point = tempfile::tempdir().expect("a scratch directory");
    let options = Options { wait, attributes_kept, check, ..Options::default() };
    let view = View::new(File::open(source).expect("opened"), options).expect("a directory");
    let session = start(view, point.path()).expect("mounted").spawn().expect("served");
    (point, session)
}

#[test]
fn what_is_there_is_seen_and_nothing_can_be_written() {
    if skip() {
        return;
    }
    let view = mounted();
    let at = |name: &str| view.at(name);
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
    let late = view.at("late");
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
    let waited = || view.waits(Step::LookUp);
    let look = |name: &str| fs::symlink_metadata(view.at(name));
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
fn numbers_and_times_are_the_sources_own_at_each_mount() {
    if skip() {
        return;
    }
    let source = source();
    let old = SystemTime::UNIX_EPOCH - Duration::from_millis(1_500);
    let file = File::open(source.path().join("dir/file")).expect("opened");
    file.set_times(FileTimes::new().set_accessed(old).set_modified(old)).expect("set");
    let identity = |path: PathBuf| {
        let found = fs::symlink_metadata(path).expect("there");
        let times = [found.atime(), found.mtime(), found.ctime()];
        let parts = [found.atime_nsec(), found.mtime_nsec(), found.ctime_nsec()];
        (found.ino(), times, parts)
    };
    for names in [["", "dir", "dir/file", "link"], ["link", "", "dir", "dir/file"]] {
        let view = mounted_with(Arc::clone(&source), REMEMBERED, Box::new(|_| Ok(())));
        for name in names {
            assert_eq!(identity(view.at(name)), identity(source.path().join(name)), "{name}");
        }
        for entry in
            fs::read_dir(view.point.path()).expect("listed").map(|entry| entry.expect("one"))
        {
            let number = entry.metadata().expect("there").ino();
            assert_eq!(entry.ino(), number, "{:?}", entry.file_name());
        }
    }
}

#[test]
fn a_replaced_file_is_looked_up_again_though_its_name_is_cached() {
    if skip() {
        return;
    }
    let view = mounted_with(source(), Duration::ZERO, Box::new(|_| Ok(())));
    assert_eq!(fs::read(view.at("dir/file")).expect("read").len(), 300_000);
    fs::write(view.source.path().join("new"), "new").expect("written");
    fs::rename(view.source.path().join("new"), view.source.path().join("dir/file"))
        .expect("replaced");
    assert_eq!(fs::read(view.at("dir/file")).expect("read"), b"new");
}

#[test]
fn as_many_names_of_a_directory_are_looked_up_at_once_as_there_are_threads() {
    if skip() {
        return;
    }
    let source = source();
    // No lookup is answered before all of them have arrived.
    let arrived = Arc::new((Mutex::new(0), Condvar::new()));
    let waiting = Arc::clone(&arrived);
    let wait = Box::new(move |step| {
        if step != Step::LookUp {
            return;
        }
        let mut count = waiting.0.lock().expect("not poisoned");
        *count += 1;
        waiting.1.notify_all();
        let limit = Duration::from_secs(60);
        drop(waiting.1.wait_timeout_while(count, limit, |count| *count < THREADS));
    });
    let (point, session) = serve(source.path(), wait, REMEMBERED, Box::new(|_| Ok(())));
    thread::scope(|scope| {
        for number in 0..THREADS {
            let path = point.path().join(number.to_string());
            scope.spawn(move || assert!(fs::symlink_metadata(path).is_err()));
        }
    });
    assert_eq!(*arrived.0.lock().expect("not poisoned"), THREADS);
    drop(session);
}

#[test]
fn each_open_waits_and_each_read_of_attributes_that_are_not_cached() {
    if skip() {
        return;
    }
    let view = mounted_with(source(), Duration::ZERO, Box::new(|_| Ok(())));
    fs::metadata(view.at("dir/file")).expect("there");
    let before = view.waits(Step::Attributes);
    for _ in 0..2 {
        File::open(view.at("dir/file")).expect("opened");
        fs::metadata(view.at("dir/file")).expect("there");
    }
    assert_eq!(view.waits(Step::Open), 2);
    assert!(view.waits(Step::Attributes) >= before + 2);
}

#[test]
fn requests_fail_below_a_path_with_the_error_that_is_asked_for() {
    if skip() {
        return;
    }
    let failures = [
        (Failure::Eio, Errno::EIO),
        (Failure::Estale, Errno::ESTALE),
        (Failure::Eacces, Errno::EACCES),
    ];
    for (failure, errno) in failures {
        let wanted = Some(errno as i32);
        let view = failing(failure, 0);
        fs::symlink_metadata(view.at("link")).expect("not below the path");
        let error = |error: io::Error| error.raw_os_error();
        assert_eq!(fs::metadata(view.at("dir/file")).map_err(error).err(), Some(wanted));
        // The lookup of the directory is answered, and no request after it.
        let view = failing(failure, 1);
        assert_eq!(fs::read_dir(view.at("dir")).map_err(error).err(), Some(wanted));
    }
}

#[test]
fn a_process_that_waits_for_no_answer_can_be_killed() {
    if skip() {
        return;
    }
    let view = failing(Failure::Hang, 0);
    let mut child = Command::new("cat").arg(view.at("dir/file")).spawn().expect("started");
    while view.waits(Step::LookUp) == 0 {
        thread::sleep(Duration::from_millis(1));
    }
    fs::symlink_metadata(view.at("link")).expect("answered");
    child.kill().expect("sent");
    assert_eq!(child.wait().expect("waited for").signal(), Some(9));
    view.session.umount_and_join().expect("unmounted");
}

/// Number of reads that must be in flight at once.
const AT_ONCE: usize = 16;
const BLOCK: usize = 4096;

#[test]
fn slow_reads_return_the_file_and_are_served_at_once() {
    if skip() {
        return;
    }
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let (image, point) = (scratch.path().join("image"), scratch.path().join("point"));
    let bytes: Vec<u8> = (0..AT_ONCE * BLOCK).map(|at| (at / BLOCK) as u8).collect();
    fs::write(&image, &bytes).expect("written");
    fs::create_dir(&point).expect("made");
    // No read is answered before all of them have arrived.
    let arrived = Arc::new((Mutex::new(0), Condvar::new()));
    let waiting = Arc::clone(&arrived);
    let wait = Box::new(move || {
        let mut count = waiting.0.lock().expect("not poisoned");
        *count += 1;
        waiting.1.notify_all();
        let limit = Duration::from_secs(60);
        drop(waiting.1.wait_timeout_while(count, limit, |count| *count < AT_ONCE));
    });
    let options = Options { read_wait: Some(wait), ..Options::default() };
    let view =
        View::new(File::open(scratch.path()).expect("opened"), options).expect("a directory");
    let session = start(view, &point).expect("mounted").spawn().expect("served");
    let disk = File::options().read(true).open(point.join("image")).expect("opened");
    thread::scope(|scope| {
        for (at, wanted) in bytes.chunks(BLOCK).enumerate() {
            let disk = &disk;
            scope.spawn(move || {
                let mut block = vec![0; BLOCK];
                disk.read_exact_at(&mut block, (at * BLOCK) as u64).expect("read");
                assert_eq!(block, wanted);
            });
        }
    });
    assert_eq!(*arrived.0.lock().expect("not poisoned"), AT_ONCE);
    drop(disk);
    drop(session);
}
