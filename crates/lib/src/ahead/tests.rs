//! Tests of records.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use becalm_host::pages::{FileState, MOST_PAGES, Touched};
use object::Endianness;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader, SectionHeader};
use proptest::prelude::*;

use super::record::{Header, Record, RecordedFile, SCHEMA};
use crate::trees::record::RecordedPath;

fn header(starts: u32) -> Header {
    Header { schema: SCHEMA.to_owned(), starts, exact: true, ..Header::default() }
}

fn file(ranges: &[(u64, u64, u32)]) -> RecordedFile {
    let ranges = ranges.to_vec();
    let path = "/x".to_owned();
    RecordedFile {
        path,
        state: FileState { inode: 1, size: 1 << 30, changed: (0, 0) },
        ranges,
        since: 0,
        opened: false,
        directory: false,
    }
}

fn wanted(starts: u32, ranges: &[(u64, u64, u32)]) -> Vec<(u64, u64)> {
    let record = Record { header: header(starts), files: vec![file(ranges)] };
    record.wanted().pop().map(|wanted| wanted.ranges).unwrap_or_default()
}

/// Returns a record of starts that touched these pages of a file of 100 pages.
fn learned(path: &Path, starts: &[&[u64]]) -> Record {
    let mut record = Record { header: header(0), files: Vec::new() };
    for pages in starts {
        let mut touched = Touched::default();
        touched.add_pages(path, pages.iter().copied());
        record.add(&touched, true);
    }
    record
}

fn some_file(dir: &tempfile::TempDir) -> PathBuf {
    let path = dir.path().join("file");
    fs::write(&path, vec![1; 100 * 4096]).expect("written");
    path
}

#[test]
fn pages_that_half_of_the_starts_used_are_read_ahead() {
    assert_eq!(wanted(3, &[(0, 1, 3), (50, 1, 2), (99, 1, 1)]), [(0, 1), (50, 1)]);
    assert_eq!(wanted(3, &[(99, 1, 1)]), []);
}

#[test]
fn small_gaps_are_read_too_unless_they_are_many() {
    assert_eq!(wanted(1, &[(0, 60, 1), (64, 60, 1), (200, 60, 1)]), [(0, 124), (200, 60)]);
    assert_eq!(wanted(1, &[(0, 1, 1), (8, 1, 1), (16, 1, 1)]), [(0, 1), (8, 1), (16, 1)]);
}

#[test]
fn the_program_is_looked_at_before_larger_files() {
    let dir = tempfile::tempdir().expect("made");
    let program = some_file(&dir);
    let library = dir.path().join("library");
    fs::write(&library, vec![1; 100 * 4096]).expect("written");
    let link = dir.path().join("link");
    symlink(&program, &link).expect("made");
    let command = link.to_str().expect("text").to_owned();
    let mut record = Record { header: Header { command, ..header(0) }, files: Vec::new() };
    let mut touched = Touched::default();
    touched.add_pages(&library, 0..90);
    touched.add_pages(&program, [7]);
    record.add(&touched, true);
    let samples = [(&program, 7), (&library, 89)];
    let samples = samples.map(|(path, page)| (path.to_str().expect("text").to_owned(), page));
    assert_eq!(record.header.samples, samples);
}

#[test]
fn what_is_looked_up_in_a_tree_is_left_to_the_process_that_looks() {
    let at = |path: &str| RecordedFile { path: path.to_owned(), ..file(&[(0, 1, 1)]) };
    let traced = RecordedFile { opened: true, ..at("/tree/traced") };
    let listed = RecordedFile { directory: true, ..at("/tree/dir") };
    let others = RecordedFile { opened: true, ..at("/trees/traced") };
    let files = vec![at("/tree/known"), traced, listed, at("/tree/library"), others, at("/x")];
    let mut record = Record { header: header(1), files };
    let mut looked_up = crate::trees::record::Record::default();
    looked_up.header.trees.push("/tree".to_owned());
    looked_up
        .paths
        .push(RecordedPath { path: "/tree/known".to_owned(), ..RecordedPath::default() });
    record.leave_out(&looked_up);
    let left: Vec<&str> = record.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(left, ["/tree/library", "/trees/traced", "/x"]);
}

#[test]
fn starts_are_counted_page_by_page() {
    let dir = tempfile::tempdir().expect("made");
    let path = some_file(&dir);
    let record = learned(&path, &[&[1, 2, 3], &[2, 3], &[3, 60]]);
    assert_eq!(record.files[0].ranges, [(1, 1, 1), (2, 1, 2), (3, 1, 3), (60, 1, 1)]);
    assert_eq!((record.header.starts, record.header.bytes), (3, 2 * 4096));
    assert_eq!(record.header.samples, [(path.to_str().expect("text").to_owned(), 3)]);
}

#[test]
fn a_file_is_learned_in_three_starts_from_the_first_that_used_it() {
    let dir = tempfile::tempdir().expect("made");
    let (mapped, read) = (some_file(&dir), dir.path().join("read"));
    fs::write(&read, "x").expect("written");
    let mut record = Record { header: header(0), files: Vec::new() };
    let mut learn = |has_read: bool| {
        let mut touched = Touched::default();
        touched.add_pages(&mapped, [1]);
        if has_read {
            touched.add_pages(&read, [0]);
        }
        record.add(&touched, true);
        (record.wanted().len(), record.header.is_wanting())
    };
    assert_eq!([learn(false), learn(false), learn(true)], [(1, true); 3]);
    assert_eq!(learn(true), (2, true), "one start may see what another process reads");
    assert_eq!(learn(false), (2, false), "two of three starts used it");
    assert_eq!([learn(false), learn(false)], [(2, false), (1, false)]);
}

#[test]
fn a_record_with_neighbours_is_learned_up_to_seven_times() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let learned = |starts, exact| Header { exact, learned: now, ..header(starts) };
    let wanting = [(2, true), (3, true), (3, false), (6, false), (7, false)];
    let wanting = wanting.map(|(starts, exact)| learned(starts, exact).is_wanting());
    assert_eq!(wanting, [true, false, true, true, false]);
}

#[test]
fn a_changed_file_loses_its_pages_and_the_record_stays() {
    let dir = tempfile::tempdir().expect("made");
    let path = some_file(&dir);
    let mut record = learned(&path, &[&[1, 2], &[1, 2]]);
    fs::write(&path, vec![2; 90 * 4096]).expect("written");
    let mut touched = Touched::default();
    touched.add_pages(&path, [7]);
    record.add(&touched, true);
    assert_eq!(record.files[0].ranges, [(7, 1, 1)]);
    assert_eq!(record.header.starts, 3);
}

#[test]
fn touched_pages_replace_those_with_their_neighbours() {
    let dir = tempfile::tempdir().expect("made");
    let path = some_file(&dir);
    let mut touched = Touched::default();
    touched.add_pages(&path, 0..16);
    let mut record = Record { header: Header { exact: false, ..header(0) }, files: Vec::new() };
    record.add(&touched, false);
    assert!(!record.header.exact);
    let mut exact = Touched::default();
    exact.add_pages(&path, [4]);
    record.add(&exact, true);
    assert_eq!((record.files[0].ranges.as_slice(), record.header.starts), (&[(4, 1, 1)][..], 1));
    record.add(&touched, false);
    assert_eq!(record.files[0].ranges, [(4, 1, 1)], "the neighbours are not added later");
}

#[test]
fn counts_are_halved_so_that_later_starts_count_as_much() {
    let dir = tempfile::tempdir().expect("made");
    let path = some_file(&dir);
    let early: &[u64] = &[1];
    let late: &[u64] = &[2];
    let record = learned(&path, &[early, early, early, early, late, late, late, late]);
    assert_eq!((record.header.starts, record.files[0].ranges.as_slice()), (4, &[(1, 2, 2)][..]));
}

#[test]
fn the_first_pages_of_opened_files_are_read_ahead_whatever_starts_touch() {
    let dir = tempfile::tempdir().expect("made");
    let path = some_file(&dir);
    let mut record = learned(&path, &[&[90], &[95], &[95]]);
    assert_eq!(record.add_opened([path.clone(), dir.path().to_owned()].into_iter()), 1);
    assert_eq!(record.wanted()[0].ranges, [(0, 100)]);
    let mut touched = Touched::default();
    touched.add_pages(&path, [7]);
    (0..20).for_each(|_| record.add(&touched, true));
    assert_eq!((record.files.len(), record.files[0].opened), (1, true));
    let large = RecordedFile { opened: true, ..file(&[(3, 1, 3), (250, 10, 3), (900, 2, 3)]) };
    let record = Record { header: header(3), files: vec![large] };
    assert_eq!(record.wanted()[0].ranges, [(0, 260), (900, 2)]);
}

#[test]
fn only_regular_files_and_directories_are_recorded() {
    let dir = tempfile::tempdir().expect("made");
    let link = dir.path().join("link");
    symlink(some_file(&dir), &link).expect("made");
    for path in [link, PathBuf::from("/dev/null"), dir.path().join("gone")] {
        assert_eq!(learned(&path, &[&[0]]).files, [], "{}", path.display());
    }
    let mut record = learned(dir.path(), &[&[0]]);
    fs::write(dir.path().join("more"), "x").expect("written");
    let mut again = Touched::default();
    again.add_pages(dir.path(), [0]);
    record.add(&again, true);
    let listed = record.wanted().pop().expect("a directory");
    assert!(listed.is_directory, "{listed:?}");
    assert_eq!(record.files[0].ranges, [(0, 1, 2)], "its entries may change");
}

#[test]
fn a_record_is_read_as_it_was_written() {
    let mut record = Record { header: header(2), files: vec![file(&[(0, 9, 2), (10, 1, 1)])] };
    record.header.samples = vec![("/x".to_owned(), 3)];
    assert_eq!(Record::parse(&record.text()).expect("a record"), record);
    let state = FileState { inode: 1, size: 1 << 30, changed: (0, 0) };
    assert_eq!(record.wanted()[0].state, state);
}

#[test]
fn records_that_becalm_does_not_write_are_refused() {
    let record = |files: Vec<RecordedFile>| Record { header: header(1), files }.text();
    let relative = RecordedFile { path: "x".to_owned(), ..file(&[(0, 1, 1)]) };
    let version = String::from_utf8(record(Vec::new())).expect("text").replace("/1", "/2");
    for (why, text) in [
        ("far pages", record(vec![file(&[(MOST_PAGES, 1, 1)])])),
        ("an overflow", record(vec![file(&[(u64::MAX, 2, 1)])])),
        ("a relative path", record(vec![relative])),
        ("too many ranges", record(vec![file(&vec![(0, 1, 1); 300_000])])),
        ("another version", version.into_bytes()),
        ("nothing", Vec::new()),
    ] {
        assert!(Record::parse(&text).is_none(), "{why}");
    }
}

proptest! {
    #[test]
    fn damaged_records_are_refused_or_read_within_bounds(
        cut in 0usize..400,
        at in 0usize..400,
        byte in any::<u8>(),
    ) {
        let files = vec![file(&[(0, 9, 2), (10, 1, 1)]), file(&[(7, 100, 2)])];
        let mut text = Record { header: header(2), files }.text();
        text.truncate(cut.max(1));
        let at = at % text.len();
        text[at] = byte;
        if let Some(record) = Record::parse(&text) {
            let pages = record.wanted().into_iter().flat_map(|wanted| wanted.ranges);
            prop_assert!(pages.map(|range| range.1).sum::<u64>() <= 2 * MOST_PAGES);
        }
    }
}

#[test]
fn the_smallest_limit_of_memory_of_the_control_groups_counts() {
    let dir = tempfile::tempdir().expect("made");
    let limit = |groups: &str| {
        fs::create_dir_all(dir.path().join("proc/self")).expect("made");
        fs::write(dir.path().join("proc/self/cgroup"), groups).expect("written");
        super::group_limit(dir.path())
    };
    let set = |path: &str, text: &str| {
        let path = dir.path().join("sys/fs/cgroup").join(path);
        fs::create_dir_all(path.parent().expect("has one")).expect("made");
        fs::write(path, text).expect("written");
    };
    assert_eq!(limit("4:memory:/a\n0::/b/c\n"), None, "no group has a limit");
    set("b/c/memory.max", "max\n");
    set("memory.max", "7000\n");
    assert_eq!(limit("4:cpu:/a\n0::/b/c\n"), Some(7000));
    set("b/memory.max", "5000\n");
    assert_eq!(limit("0::/b/c\n"), Some(5000));
    set("memory/a/memory.limit_in_bytes", "3000\n");
    assert_eq!(limit("4:memory:/a\n0::/b/c\n"), Some(3000));
    assert_eq!(limit("0::/\n"), Some(7000), "a container sees its own group as the root");
}

#[test]
fn what_a_start_uses_is_in_the_ranges_and_most_of_the_code_is_not() {
    let bytes = std::env::current_exe().and_then(std::fs::read).expect("this program");
    let ranges = becalm_core::elf::Image::new(&bytes[..]).expect("an ELF file").start_ranges();
    assert!(ranges.iter().all(|&(offset, size)| size > 0 && offset < bytes.len() as u64));
    let has = |at: u64| ranges.iter().any(|&(from, size)| (from..from + size).contains(&at));
    let header = FileHeader64::<Endianness>::parse(&bytes[..]).expect("of 64 bits");
    let endian = header.endian().expect("known");
    let sections = header.sections(endian, &bytes[..]).expect("not stripped");
    let section = |name: &str| {
        let (_, found) = sections.section_by_name(endian, name.as_bytes()).expect(name);
        found.file_range(endian).expect("in the file")
    };
    for name in [".dynsym", ".dynstr", ".rela.dyn", ".dynamic", ".init_array", ".data"] {
        let (offset, size) = section(name);
        assert!(has(offset) && has(offset + size - 1), "{name}");
    }
    let (offset, size) = section(".text");
    let code = (offset..offset + size).step_by(4096);
    assert!(code.clone().filter(|&at| has(at)).count() * 10 < code.count());
}
