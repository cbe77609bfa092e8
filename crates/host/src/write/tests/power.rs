//! Simulates power failures from the order of the calls. Any part of the unsynced writes may reach
//! the disk.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::support::{Log, Made, anew, applied, content, edit, in_place, recovered, undo};
use crate::write::{WriteOptions, Writer};

/// Returns the calls of a batch over `files` files, and the files' directory.
fn logged(options: WriteOptions, files: usize, undoes: bool) -> (Vec<(PathBuf, Made)>, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let log = Arc::new(Log::default());
    let writer = Writer::with_faults(options, log.clone());
    for number in 0..files {
        let old = content(number);
        let start = if undoes { applied(&edit(&old), &old) } else { old };
        fs::write(place.path().join(format!("f{number}")), start).unwrap();
    }
    let prepare = |number: usize| {
        let path = place.path().join(format!("f{number}"));
        let now = fs::read(&path).unwrap();
        let patch = if undoes { undo(&now).unwrap() } else { edit(&now) };
        writer.prepare(writer.open(&path).unwrap(), patch).unwrap()
    };
    let batch = (0..files).map(prepare).collect();
    writer.commit(batch).into_iter().for_each(Result::unwrap);
    let calls = std::mem::take(&mut *log.0.lock().unwrap());
    (calls, place.path().to_owned())
}

#[test]
fn a_file_is_synced_before_its_rename_and_its_name_before_the_report() {
    for files in [1, 3, 20] {
        let (calls, dir) = logged(anew(), files, false);
        let mut dirty: HashSet<&Path> = HashSet::new();
        let mut renamed = 0;
        let mut names_dirty = false;
        for (path, made) in &calls {
            match made {
                Made::Rename(_) => {
                    assert!(!dirty.contains(path.as_path()), "{}: not synced", path.display());
                    renamed += 1;
                    names_dirty = true;
                }
                Made::Sync => {
                    dirty.remove(path.as_path());
                    names_dirty &= *path != dir;
                }
                Made::SyncAll => {
                    dirty.clear();
                    names_dirty = false;
                }
                _ => {
                    dirty.insert(path);
                }
            }
        }
        assert_eq!(renamed, files);
        assert!(!names_dirty, "the directory was not synced");
    }
}

#[test]
fn many_files_are_synced_together() {
    let syncs = |calls: &[(PathBuf, Made)]| {
        calls.iter().filter(|(_, made)| matches!(made, Made::Sync | Made::SyncAll)).count()
    };
    // One for the contents, one for the directory of all files.
    assert_eq!(syncs(&logged(anew(), 20, false).0), 2);
    // One for the first ranges, one for the rest beyond the end, one for the ranges inside.
    assert_eq!(syncs(&logged(in_place(), 20, false).0), 3);
    assert_eq!(syncs(&logged(in_place(), 20, true).0), 2);
    let no_sync = WriteOptions { no_sync: true, ..anew() };
    assert_eq!(syncs(&logged(no_sync, 20, false).0), 0);
}

/// A pseudo-random sequence that is the same in every run.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn apply(image: &mut Vec<u8>, made: &Made, from: usize, to: usize) {
    match made {
        Made::Write { offset, bytes } => {
            let at = *offset as usize;
            image.resize(image.len().max(at + to), 0);
            image[at + from..at + to].copy_from_slice(&bytes[from..to]);
        }
        Made::SetLength(length) => image.resize(*length as usize, 0),
        _ => {}
    }
}

/// Applies any part of the unsynced calls: any sectors of each write, all or nothing of each change
/// of the length.
fn apply_some(image: &mut Vec<u8>, pending: &[&Made], chance: &mut Chance) {
    for made in pending {
        match made {
            Made::Write { bytes, .. } => {
                for start in (0..bytes.len()).step_by(512) {
                    if chance.next().is_multiple_of(2) {
                        apply(image, made, start, bytes.len().min(start + 512));
                    }
                }
            }
            made if chance.next().is_multiple_of(2) => apply(image, made, 0, 0),
            _ => {}
        }
    }
}

#[test]
fn in_place_a_power_failure_at_any_point_can_be_undone() {
    for undoes in [false, true] {
        let (calls, dir) = logged(in_place(), 1, undoes);
        let path = dir.join("f0");
        let old = content(0);
        let new = applied(&edit(&old), &old);
        let start = if undoes { new.clone() } else { old.clone() };
        let calls: Vec<&Made> =
            calls.iter().filter(|(at, _)| *at == path).map(|(_, made)| made).collect();
        let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
        let mut points = 0;
        for crash in 0..=calls.len() {
            let synced = calls[..crash].iter().rposition(|made| **made == Made::Sync);
            let synced = synced.map_or(0, |at| at + 1);
            for _ in 0..200 {
                let mut image = start.clone();
                for made in &calls[..synced] {
                    let len = if let Made::Write { bytes, .. } = made { bytes.len() } else { 0 };
                    apply(&mut image, made, 0, len);
                }
                apply_some(&mut image, &calls[synced..crash], &mut chance);
                points += 1;
                if image == old || image == new {
                    continue;
                }
                let recovered = recovered(&image);
                assert!(recovered == old, "undoes: {undoes}, crash at {crash} of {calls:?}");
            }
        }
        assert!(points >= 1000, "{points}");
    }
}
