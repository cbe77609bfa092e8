//! Metadata that a written file keeps.

use std::ffi::CStr;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use becalm_core::patch::{Patch, Write};
use object::ReadRef;
use rustix::fs::XattrFlags;

use super::support::{anew, content, edit, in_place, write};
use crate::write::{WriteOptions, Writer};
use becalm_testing::skip;

fn file(dir: &Path) -> std::path::PathBuf {
    let path = dir.join("file");
    fs::write(&path, content(1)).unwrap();
    path
}

fn attribute(path: &Path, name: &CStr) -> Option<Vec<u8>> {
    let mut value = vec![0; 1000];
    let size = rustix::fs::getxattr(path, name, &mut value[..]).ok()?;
    value.truncate(size);
    Some(value)
}

#[test]
fn the_times_are_kept_with_the_option() {
    for options in [anew(), in_place()] {
        for keep_times in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let path = file(dir.path());
            let long_ago =
                std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_nanos(1_000_000_007);
            File::options().write(true).open(&path).unwrap().set_modified(long_ago).unwrap();
            let writer = Writer::new(WriteOptions { keep_times, ..options });
            write(&writer, &path, edit).unwrap();
            let kept = fs::metadata(&path).unwrap().modified().unwrap() == long_ago;
            assert_eq!(kept, keep_times, "{options:?}");
        }
    }
}

#[test]
fn every_mode_is_kept() {
    for options in [anew(), in_place()] {
        for mode in [0o444, 0o555, 0o755, 0o700, 0o640, 0o1755] {
            let dir = tempfile::tempdir().unwrap();
            let path = file(dir.path());
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            write(&Writer::new(options), &path, edit).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, mode, "{options:?}");
        }
    }
}

#[test]
fn set_id_bits_are_kept_where_such_files_may_be_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4755)).unwrap();
    write(&Writer::new(WriteOptions { setuid: true, ..anew() }), &path, edit).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o4755);
}

#[test]
fn extended_attributes_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path());
    let long = vec![b'x'; 700];
    let set = rustix::fs::setxattr(&path, c"user.long", &long, XattrFlags::empty());
    if let Err(error) = set {
        return skip(&format!("no user attributes here: {error}"));
    }
    rustix::fs::setxattr(&path, c"user.empty", b"", XattrFlags::empty()).unwrap();
    for options in [anew(), in_place(), anew()] {
        write(&Writer::new(options), &path, |old| Patch {
            writes: Vec::new(),
            length: old.len() as u64 + 1,
        })
        .unwrap();
        assert_eq!(attribute(&path, c"user.long"), Some(long.clone()), "{options:?}");
        assert_eq!(attribute(&path, c"user.empty"), Some(Vec::new()), "{options:?}");
    }
}

#[test]
fn file_capabilities_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path());
    // VFS_CAP_REVISION_2 with CAP_NET_RAW permitted and effective (linux/capability.h).
    let mut value = 0x0200_0001_u32.to_le_bytes().to_vec();
    value.extend((1_u32 << 13).to_le_bytes());
    value.resize(20, 0);
    let set = rustix::fs::setxattr(&path, c"security.capability", &value, XattrFlags::empty());
    if let Err(error) = set {
        return skip(&format!("capabilities cannot be set here: {error}"));
    }
    write(&Writer::new(anew()), &path, edit).unwrap();
    assert_eq!(attribute(&path, c"security.capability"), Some(value));
}

#[test]
fn an_access_control_list_is_kept_and_none_is_inherited() {
    let dir = tempfile::tempdir().unwrap();
    let with = file(dir.path());
    let without = dir.path().join("without");
    fs::write(&without, content(1)).unwrap();
    let acl = |arguments: &[&str], path: &Path| {
        let run = Command::new("setfacl").args(arguments).arg(path).output();
        run.is_ok_and(|output| output.status.success())
    };
    if !acl(&["-m", "u:12345:rw"], &with) || !acl(&["-d", "-m", "u:54321:r"], dir.path()) {
        return skip("no access control lists here (setfacl)");
    }
    let name = c"system.posix_acl_access";
    let list = attribute(&with, name).unwrap();
    let mode = fs::metadata(&with).unwrap().mode();
    write(&Writer::new(anew()), &with, edit).unwrap();
    write(&Writer::new(anew()), &without, edit).unwrap();
    assert_eq!(attribute(&with, name), Some(list));
    assert_eq!(fs::metadata(&with).unwrap().mode(), mode);
    assert_eq!(attribute(&without, name), None);
}

#[test]
fn a_foreign_owner_is_kept_by_the_administrator() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path());
    if std::os::unix::fs::chown(&path, Some(4321), Some(1234)).is_err() {
        return skip("files cannot be given away by this user");
    }
    for options in [anew(), in_place()] {
        let mode = fs::Permissions::from_mode(0o6750);
        fs::set_permissions(&path, mode).unwrap();
        let set_id = options == anew();
        if !set_id {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
        }
        let writer = Writer::new(WriteOptions { setuid: true, ..options });
        write(&writer, &path, |old| Patch { writes: Vec::new(), length: old.len() as u64 + 1 })
            .unwrap();
        let now = fs::metadata(&path).unwrap();
        assert_eq!((now.uid(), now.gid()), (4321, 1234), "{options:?}");
        assert_eq!(now.mode() & 0o7777, if set_id { 0o6750 } else { 0o750 }, "{options:?}");
    }
}

#[test]
fn a_symbolic_link_stays_and_its_target_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path());
    let (near, far) = (dir.path().join("near"), dir.path().join("far"));
    symlink("file", &near).unwrap();
    symlink(&near, &far).unwrap();
    let writer = Writer::new(anew());
    let opened = writer.open(&far).unwrap();
    assert_eq!(opened.path, path.canonicalize().unwrap());
    let id = opened.id();
    drop(opened);
    assert_eq!(writer.open(&near).unwrap().id(), id, "two links to one file are one file");
    write(&writer, &far, edit).unwrap();
    assert_eq!(fs::read_link(&far).unwrap(), near);
    assert_eq!(fs::read_link(&near).unwrap(), Path::new("file"));
    assert!(fs::read(&path).unwrap().len() > content(1).len());
}

/// Returns the resident set size of this process, in bytes (proc_pid_status(5)).
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
}

#[test]
fn a_sparse_file_beyond_4_gb_stays_sparse_and_costs_no_memory() {
    const LENGTH: u64 = 5 << 30;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let file = File::create(&path).unwrap();
    if file.set_len(LENGTH).is_err() {
        return skip("no file beyond 4 GB can be made here");
    }
    file.write_all_at(b"begin", 0).unwrap();
    file.write_all_at(b"middle", 3 << 30).unwrap();
    drop(file);
    for (options, tag) in [(anew(), *b"anew"), (in_place(), *b"over")] {
        let before = resident();
        let writer = Writer::new(options);
        let file = writer.open(&path).unwrap();
        assert_eq!((&file.reader).read_bytes_at(3 << 30, 6).unwrap(), b"middle");
        let length = file.fingerprint().size;
        let patch = Patch {
            writes: vec![
                Write { offset: 1 << 30, bytes: tag.to_vec() },
                Write { offset: length, bytes: vec![b'T'; 100] },
            ],
            length: length + 100,
        };
        writer.apply(file, patch).unwrap();
        assert!(resident() < before + (64 << 20), "{options:?}");
        let now = File::open(&path).unwrap();
        let mut bytes = [0; 6];
        now.read_exact_at(&mut bytes, 3 << 30).unwrap();
        assert_eq!(&bytes, b"middle", "{options:?}");
        now.read_exact_at(&mut bytes[..4], 1 << 30).unwrap();
        assert_eq!(bytes[..4], tag, "{options:?}");
        now.read_exact_at(&mut bytes[..1], length + 99).unwrap();
        assert_eq!(&bytes[..1], b"T", "{options:?}");
        let blocks = now.metadata().unwrap().blocks();
        assert!(blocks * 512 < 1 << 20, "{options:?}: {blocks} blocks");
    }
}

#[test]
fn a_hole_at_the_end_stays_and_the_length_is_right() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let file = File::create(&path).unwrap();
    file.write_all_at(&content(3), 0).unwrap();
    file.set_len(1 << 20).unwrap();
    drop(file);
    let before = fs::read(&path).unwrap();
    let change = |old: &[u8]| Patch {
        writes: vec![Write { offset: 5, bytes: b"x".to_vec() }],
        length: old.len() as u64 - 7,
    };
    write(&Writer::new(anew()), &path, change).unwrap();
    let now = fs::read(&path).unwrap();
    assert_eq!(now.len(), before.len() - 7);
    assert_eq!(
        (&now[..5], &now[5..6], &now[6..]),
        (&before[..5], &b"x"[..], &before[6..now.len()])
    );
}
