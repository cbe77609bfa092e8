//! Creating, replacing and removing whole files and directories of links, and leftovers of killed
//! runs.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::faults::{Faults, Verdict};
use super::support::{Plan, Script, anew, quick_place, snapshot};
use crate::write::sys::Call;
use crate::write::{Existing, Links, WriteError, Writer};

fn links(version: &str) -> Links {
    ["liba.so.1", "libb.so.2", "libc.so.3"]
        .map(|name| (OsString::from(name), PathBuf::from(format!("/store/{version}/{name}"))))
        .to_vec()
}

fn is_store_links(existing: &Existing) -> bool {
    matches!(existing, Existing::Links(links) if links.iter().all(|(_, to)| to.starts_with("/store")))
}

fn begins_with_ours(existing: &Existing) -> bool {
    matches!(existing, Existing::File(bytes) if bytes.starts_with(b"ours"))
}

#[test]
fn a_directory_of_links_is_made_changed_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let farm = dir.path().join("farm");
    let writer = Writer::new(anew());
    assert!(writer.make_links(&farm, &links("1"), |_| false).unwrap());
    assert!(!writer.make_links(&farm, &links("1"), |_| false).unwrap(), "already so");
    assert!(writer.make_links(&farm, &links("2")[..2], is_store_links).unwrap());
    assert_eq!(fs::read_dir(&farm).unwrap().count(), 2);
    assert_eq!(fs::read_link(farm.join("liba.so.1")).unwrap(), Path::new("/store/2/liba.so.1"));
    assert_eq!(fs::metadata(&farm).unwrap().permissions().mode() & 0o7777, 0o755);
    assert!(writer.remove_made(&farm, is_store_links).unwrap());
    assert!(!writer.remove_made(&farm, is_store_links).unwrap(), "already gone");
    assert_eq!(snapshot(dir.path()), []);
}

#[test]
fn files_of_others_are_neither_replaced_nor_removed() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("file"), b"theirs").unwrap();
    symlink("/store/x", at("link")).unwrap();
    fs::create_dir(at("mixed")).unwrap();
    symlink("/store/x", at("mixed/link")).unwrap();
    fs::write(at("mixed/file"), b"theirs").unwrap();
    fs::create_dir(at("links")).unwrap();
    symlink("/elsewhere", at("links/link")).unwrap();
    let before = snapshot(dir.path());
    let writer = Writer::new(anew());
    for name in ["file", "link", "mixed", "links"] {
        let path = at(name);
        let outcomes = [
            writer.write_new(&path, b"ours 2", 0o644, begins_with_ours),
            writer.make_links(&path, &links("1"), is_store_links),
            writer.remove_made(&path, |e| begins_with_ours(e) || is_store_links(e)),
        ];
        for outcome in outcomes {
            assert!(matches!(outcome, Err(WriteError::NotOurs { .. })), "{name}: {outcome:?}");
        }
    }
    // A link, and a directory that has other things than links, are rejected before the caller
    // decides.
    assert!(writer.remove_made(&at("link"), |_| true).is_err());
    assert!(writer.remove_made(&at("mixed"), |_| true).is_err());
    assert_eq!(snapshot(dir.path()), before);
}

#[test]
fn a_file_is_made_replaced_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ld.so.cache");
    let writer = Writer::new(anew());
    assert!(writer.write_new(&path, b"ours 1", 0o444, |_| false).unwrap());
    assert!(!writer.write_new(&path, b"ours 1", 0o444, |_| false).unwrap(), "already so");
    assert!(writer.write_new(&path, b"ours 2", 0o444, begins_with_ours).unwrap());
    assert_eq!(fs::read(&path).unwrap(), b"ours 2");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o444);
    assert!(writer.remove_made(&path, begins_with_ours).unwrap());
    assert_eq!(snapshot(dir.path()), []);
}

#[test]
fn a_directory_is_made_once_and_removed_only_when_empty() {
    let dir = tempfile::tempdir().unwrap();
    let etc = dir.path().join("etc");
    let writer = Writer::new(anew());
    let mode = || fs::metadata(&etc).unwrap().permissions().mode() & 0o7777;
    assert!(writer.make_dir(&etc).unwrap());
    assert!(!writer.make_dir(&etc).unwrap());
    assert_eq!(mode(), 0o1755);
    assert!(writer.settle_dir(&etc).unwrap());
    assert!(!writer.settle_dir(&etc).unwrap());
    assert_eq!(mode(), 0o755);
    assert!(writer.unsettle_dir(&etc).unwrap());
    assert_eq!(mode(), 0o1755);
    fs::set_permissions(&etc, fs::Permissions::from_mode(0o750)).unwrap();
    assert!(!writer.unsettle_dir(&etc).unwrap(), "not as they are made");
    fs::write(etc.join("file"), b"x").unwrap();
    assert!(!writer.remove_empty_dir(&etc).unwrap());
    fs::remove_file(etc.join("file")).unwrap();
    assert!(writer.remove_empty_dir(&etc).unwrap());
    assert!(!writer.remove_empty_dir(&etc).unwrap());
    fs::write(&etc, b"a file").unwrap();
    assert!(writer.make_dir(&etc).is_err());
}

#[test]
fn leftovers_of_a_killed_run_are_removed_and_similar_names_stay() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::write(at(".becalm-new-0123456789abcdef"), b"left").unwrap();
    fs::create_dir(at(".becalm-new-00000000000000aa")).unwrap();
    symlink("/store/x", at(".becalm-new-00000000000000aa/link")).unwrap();
    let alike = [
        ".becalm-new-0123456789abcde",
        ".becalm-new-0123456789ABCDEF",
        ".becalm-new-0123456789abcdef0",
        ".becalm-old-0123456789abcdef",
        "becalm-new-0123456789abcdef",
    ];
    alike.iter().for_each(|name| fs::write(at(name), b"theirs").unwrap());
    fs::create_dir(at(".becalm-new-00000000000000bb")).unwrap();
    fs::write(at(".becalm-new-00000000000000bb/file"), b"theirs").unwrap();
    symlink("/store/x", at(".becalm-new-00000000000000cc")).unwrap();
    assert_eq!(Writer::new(anew()).clean(dir.path()).unwrap(), 2);
    assert_eq!(snapshot(dir.path()).len(), alike.len() + 3);
}

#[test]
fn the_temporary_files_of_a_running_process_stay() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, super::support::content(1)).unwrap();
    let (first, second) = (Writer::new(anew()), Writer::new(anew()));
    let patch = super::support::edit(&super::support::content(1));
    let prepared = first.prepare(first.open(&path).unwrap(), patch).unwrap();
    assert_eq!(second.clean(dir.path()).unwrap(), 0);
    first.commit(vec![prepared]).remove(0).unwrap();
    assert_eq!(snapshot(dir.path()).len(), 1);
}

/// One operation that creates or removes something.
type Operation = fn(&Writer, &Path) -> Result<bool, WriteError>;

#[test]
fn a_kill_or_failure_at_any_point_leaves_old_or_new() {
    let deeds: [(&str, Operation); 6] = [
        ("new file", |writer, dir| writer.write_new(&dir.join("f"), b"ours", 0o644, |_| false)),
        ("replaced file", |writer, dir| {
            writer.write_new(&dir.join("old"), b"ours 2", 0o644, begins_with_ours)
        }),
        ("new links", |writer, dir| writer.make_links(&dir.join("l"), &links("1"), |_| false)),
        ("replaced links", |writer, dir| {
            writer.make_links(&dir.join("farm"), &links("2"), is_store_links)
        }),
        ("removed file", |writer, dir| writer.remove_made(&dir.join("old"), begins_with_ours)),
        ("removed links", |writer, dir| writer.remove_made(&dir.join("farm"), is_store_links)),
    ];
    let build = || {
        let dir = quick_place();
        fs::write(dir.path().join("old"), b"ours 1").unwrap();
        Writer::new(anew()).make_links(&dir.path().join("farm"), &links("1"), |_| false).unwrap();
        dir
    };
    let relative = |dir: &Path| -> Vec<(PathBuf, Vec<u8>)> {
        let all = snapshot(dir).into_iter();
        all.map(|(path, bytes)| (path.strip_prefix(dir).unwrap().to_owned(), bytes)).collect()
    };
    for (name, deed) in deeds {
        let dry = build();
        let before = relative(dry.path());
        let script = Script::new(Plan::Count);
        deed(&Writer::with_faults(anew(), script.clone()), dry.path()).unwrap();
        let after = relative(dry.path());
        let counts = script.counts();
        let full = (0..counts.spaces).map(|at| Plan::Full { at, on: false });
        for plan in counts
            .kills()
            .into_iter()
            .chain(full)
            .chain((0..counts.calls).map(|at| Plan::Broken { at }))
        {
            let dir = build();
            let outcome = deed(&Writer::with_faults(anew(), Script::new(plan)), dir.path());
            Writer::new(anew()).clean(dir.path()).unwrap();
            let now = relative(dir.path());
            assert!(now == before || now == after, "{name}, {plan:?}: {outcome:?} {now:?}");
            if outcome.is_ok() {
                assert_eq!(now, after, "{name}, {plan:?}");
            }
        }
    }
}

/// The holder of a lock removes its name, after this run has opened the file and before it locks it.
struct Removes(AtomicBool);

impl Faults for Removes {
    fn before(&self, path: &Path, call: Call<'_>) -> Verdict {
        // The directory is locked too.
        if call == Call::Lock && path.is_file() && !self.0.swap(true, Ordering::SeqCst) {
            fs::remove_file(path).unwrap();
        }
        Verdict::Pass
    }
}

#[test]
fn a_lock_whose_name_was_removed_is_taken_again_under_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lock");
    let removes = Arc::new(Removes(AtomicBool::new(false)));
    let lock = Writer::with_faults(anew(), removes).lock(&path).unwrap();
    assert!(lock.is_some() && path.exists());
    assert!(Writer::new(anew()).lock(&path).unwrap().is_none(), "two hold the lock");
}

/// A forked child draws the numbers that its parent draws.
#[test]
fn a_random_name_that_another_run_has_is_drawn_again() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let opened = fs::File::open(dir.path()).unwrap();
    rustix::fs::flock(&opened, rustix::fs::FlockOperation::LockShared).unwrap();
    fastrand::seed(7);
    let taken = at(&format!(".becalm-new-{:016x}", fastrand::u64(..)));
    fs::write(&taken, "of another run").unwrap();
    let writer = Writer::new(anew());
    fastrand::seed(7);
    writer.replace(&at("file"), b"new", 0o644).unwrap();
    fastrand::seed(7);
    writer.replace_link(&at("link"), &at("file")).unwrap();
    assert_eq!(fs::read_to_string(at("link")).unwrap(), "new");
    assert_eq!(fs::read_to_string(taken).unwrap(), "of another run");
}
