//! Runs the real editor and writer on a file beyond 4 GB. The file consists of holes, so it needs
//! no disk space, and it is read in ranges, so memory does not grow with it.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use becalm_core::edit::{Edit, RunPathKind};
use becalm_core::elf;
use becalm_host::write::{WriteOptions, Writer};
use becalm_rewrite::{State, edit, edit_in_place, state, undo};
use object::ReadCache;

/// Offset of the large file's section headers.
const FAR: u64 = 5 << 30;
/// Offsets of `e_shoff`, `e_shentsize` and `e_shnum` in the 64-bit header (gABI, chapter 4).
const E_SHOFF: usize = 0x28;
const E_SHENTSIZE: usize = 0x3a;
const E_SHNUM: usize = 0x3c;
/// Limit of the growth of memory, in bytes: the cached ranges and the needs of the test harness.
const ROOM: u64 = 64 << 20;

/// Copies this program and moves its section headers, and so its end, beyond 4 GB.
fn large(dir: &Path) -> (PathBuf, Vec<u8>) {
    let mut head = fs::read(std::env::current_exe().unwrap()).unwrap();
    let number = |at: usize, size: usize| {
        head[at..at + size].iter().rev().fold(0, |all, &byte| all << 8 | usize::from(byte))
    };
    let (from, size) = (number(E_SHOFF, 8), number(E_SHENTSIZE, 2) * number(E_SHNUM, 2));
    let table = head[from..from + size].to_vec();
    head[E_SHOFF..E_SHOFF + 8].copy_from_slice(&FAR.to_le_bytes());
    let path = dir.join("large");
    let mut file = File::create(&path).unwrap();
    file.write_all(&head).unwrap();
    file.seek(SeekFrom::Start(FAR)).unwrap();
    file.write_all(&table).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let whole = [head, table].concat();
    (path, whole)
}

/// Returns the parts of the file that are not holes.
fn read(path: &Path, head: usize, table: usize) -> Vec<u8> {
    let file = File::open(path).unwrap();
    assert_eq!(file.metadata().unwrap().len(), FAR + table as u64);
    let mut bytes = vec![0; head + table];
    file.read_exact_at(&mut bytes[..head], 0).unwrap();
    file.read_exact_at(&mut bytes[head..], FAR).unwrap();
    bytes
}

fn peak_memory() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() * 1024
}

fn says(program: &Path) -> (Option<i32>, Vec<u8>) {
    let output = Command::new(program).arg("--list").output().unwrap();
    (output.status.code(), output.stdout)
}

fn there_and_back(in_place: bool) {
    if cfg!(not(all(target_pointer_width = "64", target_endian = "little"))) {
        return becalm_testing::skip("the fixture is made for 64-bit little-endian programs");
    }
    let dir = tempfile::tempdir().unwrap();
    let (path, original) = large(dir.path());
    let table = fs::metadata(&path).unwrap().len() - FAR;
    let said = says(&path);
    assert_eq!(said.0, Some(0));
    let (before, blocks) = (peak_memory(), fs::metadata(&path).unwrap().blocks());

    let writer = Writer::new(WriteOptions { in_place, ..WriteOptions::default() });
    let run_path = Edit::RunPath { kind: RunPathKind::Keep, value: Some("/of/a/test".into()) };
    let edits = [Edit::ResolutionNote(Some(vec![7; 5000])), run_path];
    let file = writer.open(&path).unwrap();
    let edited = match in_place {
        true => edit_in_place(&file.reader, &edits).unwrap(),
        false => edit(&file.reader, &edits).unwrap(),
    };
    writer.apply(file, edited.patch.unwrap()).unwrap();

    let cache = ReadCache::new(File::open(&path).unwrap());
    assert!(
        matches!(state(&cache), Ok(State::Edited { original_length }) if original_length > FAR)
    );
    let view = elf::parse(&cache).unwrap();
    assert_eq!(view.notes.resolution.as_deref(), Some([7; 5000].as_slice()));
    assert_eq!(says(&path), said, "the edited program still runs");
    // Holes stay holes, so only a few pages are added on the disk.
    assert!(fs::metadata(&path).unwrap().blocks() < blocks + 2048);

    let file = writer.open(&path).unwrap();
    let back = undo(&file.reader).unwrap();
    writer.apply(file, back).unwrap();
    assert!(peak_memory() - before < ROOM, "{} bytes more", peak_memory() - before);
    let table = usize::try_from(table).unwrap();
    assert!(read(&path, original.len() - table, table) == original, "byte for byte");
}

#[test]
fn a_file_beyond_4_gb_is_written_anew_and_undone_in_little_memory() {
    there_and_back(false);
}

#[test]
fn a_file_beyond_4_gb_is_written_in_place_and_undone_in_little_memory() {
    there_and_back(true);
}
