//! Files that are not written: each has its own error and stays unchanged.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use becalm_core::patch::{Patch, Write};
use becalm_testing::skip;
use becalm_testing::test_user::run_again;
use object::ReadRef;

use super::faults::{Faults, Verdict};
use super::support::{anew, content, edit, in_place, snapshot, write};
use crate::write::sys::Call;
use crate::write::{HardLinks, WriteError, WriteOptions, Writer};

fn place() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, content(1)).unwrap();
    (dir, path)
}

#[test]
fn a_file_of_two_names_is_refused_broken_or_kept() {
    let (dir, path) = place();
    let second = dir.path().join("second");
    fs::hard_link(&path, &second).unwrap();
    let with = |hardlinks| Writer::new(WriteOptions { hardlinks, ..anew() });
    let refused = write(&with(HardLinks::Refuse), &path, edit);
    assert!(
        matches!(&refused, Err(WriteError::Refused { why, .. }) if why.contains("has 2 hard links")),
        "{refused:?}"
    );
    assert_eq!(fs::read(&path).unwrap(), content(1));

    write(&with(HardLinks::Keep), &path, edit).unwrap();
    assert_eq!(fs::read(&path).unwrap(), fs::read(&second).unwrap());
    assert_ne!(fs::read(&path).unwrap(), content(1));
    assert_eq!(fs::metadata(&path).unwrap().ino(), fs::metadata(&second).unwrap().ino());

    let kept = fs::read(&second).unwrap();
    write(&with(HardLinks::Break), &path, |_| Patch::default()).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"");
    assert_eq!(fs::read(&second).unwrap(), kept);
    assert_eq!(fs::metadata(&second).unwrap().nlink(), 1);
}

#[test]
fn set_id_files_need_an_option_and_are_never_written_in_place() {
    for mode in [0o4755, 0o2755] {
        let (_dir, path) = place();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let refused = write(&Writer::new(anew()), &path, edit);
        assert!(
            matches!(&refused, Err(WriteError::Refused { why, .. }) if why.contains("is set-uid")),
            "{refused:?}"
        );
        let allowed = WriteOptions { setuid: true, ..in_place() };
        let refused = write(&Writer::new(allowed), &path, edit);
        assert!(
            matches!(&refused, Err(WriteError::Refused { why, .. }) if why.contains("remove its set-id bit")),
            "{refused:?}"
        );
        assert_eq!(fs::read(&path).unwrap(), content(1));
    }
}

#[test]
fn a_path_that_is_no_regular_file_is_refused_at_once() {
    let (dir, _) = place();
    let fifo = dir.path().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RUSR).unwrap();
    let writer = Writer::new(anew());
    for path in [fifo.as_path(), dir.path(), Path::new("/dev/null")] {
        let refused = writer.open(path).map(drop);
        assert!(
            matches!(&refused, Err(WriteError::Refused { why, .. }) if why.contains("not a regular file")),
            "{refused:?}"
        );
    }
    let dangling = dir.path().join("dangling");
    symlink("nowhere", &dangling).unwrap();
    let round = dir.path().join("round");
    symlink("round", &round).unwrap();
    for path in [dangling, round, dir.path().join("absent")] {
        let refused = writer.open(&path).map(drop);
        assert!(
            matches!(&refused, Err(WriteError::Failed { what, .. }) if what == "cannot be opened"),
            "{refused:?}"
        );
    }
}

#[test]
fn a_second_open_of_one_file_is_refused() {
    let (dir, path) = place();
    let link = dir.path().join("link");
    symlink(&path, &link).unwrap();
    let (first, second) = (Writer::new(anew()), Writer::new(in_place()));
    let held = first.open(&path).unwrap();
    let refused = second.open(&link).map(drop);
    assert!(matches!(refused, Err(WriteError::Locked { .. })), "{refused:?}");
    let prepared = first.prepare(held, edit(&content(1))).unwrap();
    assert!(matches!(second.open(&path).map(drop), Err(WriteError::Locked { .. })));
    first.commit(vec![prepared]).remove(0).unwrap();
    let now = second.open(&path).unwrap();
    assert_eq!(now.fingerprint().size, fs::metadata(&path).unwrap().len());
}

#[test]
fn a_file_that_changes_meanwhile_is_left_as_it_is() {
    type Change = fn(&Path);
    let changes: [(&str, Change); 5] = [
        ("written", |path| {
            File::options().write(true).open(path).unwrap().write_all_at(b"!", 3).unwrap();
        }),
        ("longer", |path| {
            File::options().write(true).open(path).unwrap().write_all_at(b"!", 20_000).unwrap();
        }),
        ("mode", |path| {
            fs::set_permissions(path, fs::Permissions::from_mode(0o701)).unwrap();
        }),
        ("replaced", |path| {
            fs::write(path.with_extension("new"), b"other").unwrap();
            fs::rename(path.with_extension("new"), path).unwrap();
        }),
        ("linked", |path| fs::hard_link(path, path.with_extension("link")).unwrap()),
    ];
    for (name, change) in changes {
        for options in [anew(), in_place()] {
            for prepared_first in [false, true] {
                let (dir, path) = place();
                let writer = Writer::new(options);
                let file = writer.open(&path).unwrap();
                let outcome = if prepared_first {
                    let prepared = writer.prepare(file, edit(&content(1))).unwrap();
                    change(&path);
                    writer.commit(vec![prepared]).remove(0).map(drop)
                } else {
                    change(&path);
                    writer.prepare(file, edit(&content(1))).map(drop)
                };
                let point = format!("{name}, {options:?}, prepared: {prepared_first}");
                assert!(matches!(outcome, Err(WriteError::Changed { .. })), "{point}: {outcome:?}");
                let expected = match name {
                    "replaced" => b"other".to_vec(),
                    "written" => [&content(1)[..3], b"!", &content(1)[4..]].concat(),
                    // The changed byte was beyond the end, after the prepared ranges. Dropping the
                    // preparation has cut it off with them.
                    "longer" if options == anew() || !prepared_first => {
                        [&content(1)[..], b"!"].concat()
                    }
                    _ => content(1),
                };
                assert_eq!(fs::read(&path).unwrap(), expected, "{point}");
                let names = snapshot(dir.path());
                let ours = |path: &Path| path.to_str().unwrap().contains(".becalm-");
                assert!(!names.iter().any(|(path, _)| ours(path)), "{point}: {names:?}");
            }
        }
    }
}

#[test]
fn a_file_that_is_truncated_while_it_is_read_gives_an_error_and_no_signal() {
    let (_dir, path) = place();
    let writer = Writer::new(anew());
    let file = writer.open(&path).unwrap();
    File::options().write(true).open(&path).unwrap().set_len(100).unwrap();
    assert!((&file.reader).read_bytes_at(10_000, 10).is_err());
    let error = file.reader.error().map(std::io::Error::kind);
    assert_eq!(error, Some(std::io::ErrorKind::UnexpectedEof));
}

#[test]
fn overlapping_ranges_are_refused() {
    let range = |offset, len| Write { offset, bytes: vec![0; len] };
    let bad = [
        Patch { writes: vec![range(0, 10)], length: 9 },
        Patch { writes: vec![range(5, 10), range(14, 1)], length: 20_000 },
        Patch { writes: vec![range(10, 1), range(5, 1)], length: 20_000 },
        Patch { writes: vec![range(u64::MAX, 2)], length: u64::MAX },
    ];
    for patch in bad {
        let (_dir, path) = place();
        let refused = write(&Writer::new(anew()), &path, |_| patch);
        assert!(
            matches!(&refused, Err(WriteError::Refused { why, .. }) if why.contains("the patch has ranges")),
            "{refused:?}"
        );
        assert_eq!(fs::read(&path).unwrap(), content(1));
    }
}

/// Sets an inode flag with `chattr`.
fn set_flag(flag: &str, path: &Path) -> bool {
    let run = Command::new("chattr").arg(flag).arg(path).output();
    run.is_ok_and(|output| output.status.success())
}

#[test]
fn a_file_with_an_inode_flag_or_in_a_directory_with_one_is_refused() {
    for (on, off, what) in [("+i", "-i", "immutable"), ("+a", "-a", "append-only")] {
        for options in [anew(), in_place()] {
            let (_dir, path) = place();
            if !set_flag(on, &path) {
                return skip("inode flags cannot be set here (chattr)");
            }
            let refused = write(&Writer::new(options), &path, edit);
            set_flag(off, &path);
            let named =
                matches!(&refused, Err(WriteError::Refused { why, .. }) if why.contains(what));
            assert!(named, "{refused:?}");
            assert_eq!(fs::read(&path).unwrap(), content(1));
        }
    }
    let (dir, path) = place();
    set_flag("+i", dir.path());
    let refused = write(&Writer::new(anew()), &path, edit);
    set_flag("-i", dir.path());
    assert!(
        matches!(&refused, Err(WriteError::Refused { path, why }) if path == dir.path() && why.contains("immutable")),
        "{refused:?}"
    );
}

#[test]
fn a_running_program_is_refused_in_place_and_written_anew() {
    let (dir, _) = place();
    let path = dir.path().join("sleep");
    let Ok(sleep) = fs::read("/bin/sleep") else { return skip("no /bin/sleep") };
    fs::write(&path, sleep).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let Ok(mut child) = Command::new(&path).arg("60").spawn() else {
        return skip("programs cannot be run from the temporary directory");
    };
    let longer = |old: &[u8]| Patch { writes: Vec::new(), length: old.len() as u64 + 1 };
    let refused = write(&Writer::new(in_place()), &path, longer);
    let anew = write(&Writer::new(anew()), &path, longer);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(
        matches!(&refused, Err(WriteError::Refused { why, .. }) if why.contains("is being executed")),
        "{refused:?}"
    );
    anew.unwrap();
}

#[test]
fn a_read_only_file_system_has_an_error_of_its_own() {
    let (dir, _) = place();
    let mount = |options: &str| {
        let run = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "none"])
            .arg(dir.path())
            .output();
        run.is_ok_and(|output| output.status.success())
    };
    if !mount("size=1m") {
        return skip("a tmpfs cannot be mounted here");
    }
    let path = dir.path().join("file");
    fs::write(&path, content(1)).unwrap();
    let read_only = mount("remount,ro");
    let outcomes: Vec<_> =
        [anew(), in_place()].map(|options| write(&Writer::new(options), &path, edit)).into();
    Command::new("umount").arg(dir.path()).status().unwrap();
    assert!(read_only);
    for outcome in outcomes {
        let named = matches!(&outcome, Err(WriteError::Refused { why, .. }) if why.contains("read-only file system"));
        assert!(named, "{outcome:?}");
    }
}

#[test]
fn an_ordinary_user_writes_read_only_files_and_is_refused_those_of_others() {
    let name = "write::tests::refused::an_ordinary_user_writes_read_only_files_and_is_refused_those_of_others";
    if let Some(tree) = std::env::var_os("BECALM_TEST_TREE") {
        return as_ordinary_user(Path::new(&tree));
    }
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    fs::write(dir.path().join("foreign"), content(2)).unwrap();
    fs::write(dir.path().join("secret"), content(2)).unwrap();
    fs::set_permissions(dir.path().join("secret"), fs::Permissions::from_mode(0o000)).unwrap();
    let closed = dir.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::write(closed.join("file"), content(2)).unwrap();
    run_again(name, dir.path());
    assert_eq!(fs::read(dir.path().join("foreign")).unwrap(), content(2));
}

fn as_ordinary_user(tree: &Path) {
    let own = tree.join("own");
    for options in [anew(), in_place()] {
        fs::write(&own, content(1)).unwrap();
        fs::set_permissions(&own, fs::Permissions::from_mode(0o444)).unwrap();
        write(&Writer::new(options), &own, edit).unwrap();
        assert!(fs::read(&own).unwrap().len() > content(1).len(), "{options:?}");
        assert_eq!(fs::metadata(&own).unwrap().mode() & 0o7777, 0o444, "{options:?}");
        fs::remove_file(&own).unwrap();
    }
    // If this is the only user, no file belongs to another one.
    if fs::metadata(tree).unwrap().uid() == rustix::process::geteuid().as_raw() {
        return;
    }
    let foreign = tree.join("foreign");
    let refused = write(&Writer::new(anew()), &foreign, edit);
    assert!(
        matches!(&refused, Err(WriteError::Refused { why, .. }) if why.contains("cannot get that owner")),
        "{refused:?}"
    );
    let refused = write(&Writer::new(in_place()), &foreign, edit);
    assert!(
        matches!(&refused, Err(WriteError::Failed { what, .. }) if what == "cannot be opened"),
        "{refused:?}"
    );
    assert_eq!(fs::read(&foreign).unwrap(), content(2));
    let refused = write(&Writer::new(anew()), &tree.join("closed/file"), edit);
    assert!(matches!(refused, Err(WriteError::Failed { .. })), "{refused:?}");
    let refused = Writer::new(anew()).open(&tree.join("secret")).map(drop);
    assert!(
        matches!(&refused, Err(WriteError::Failed { what, .. }) if what == "cannot be opened"),
        "{refused:?}"
    );
    assert_eq!(fs::read_dir(tree).unwrap().count(), 3, "left behind");
}

/// Another run writes the file in place, after this one has opened it and before it locks it.
struct Grows(PathBuf);

impl Faults for Grows {
    fn before(&self, _: &Path, call: Call<'_>) -> Verdict {
        if call == Call::Lock {
            fs::write(&self.0, content(2).repeat(2)).unwrap();
        }
        Verdict::Pass
    }
}

#[test]
fn a_file_that_grew_before_it_was_locked_has_its_new_length() {
    let (_dir, path) = place();
    // Times that are as new as the clock is coarse are read again in any case.
    let is_new = || path.metadata().unwrap().modified().unwrap().elapsed().unwrap_or_default();
    while is_new() < Duration::from_millis(50) {
        std::thread::yield_now();
    }
    let writer = Writer::with_faults(in_place(), Arc::new(Grows(path.clone())));
    let file = writer.open(&path).unwrap();
    assert_eq!((&file.reader).len(), Ok(2 * content(2).len() as u64));
    assert_eq!(file.fingerprint().size, 2 * content(2).len() as u64);
}
