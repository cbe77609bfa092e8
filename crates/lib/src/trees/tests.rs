//! Tests of records and of what is found at recorded paths.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use becalm_host::child::family_of;
use becalm_host::tree::look::{self, Changes, Identity};
use becalm_host::tree::table::{self, Table};
use rustix::fs::CWD;

use super::attend::COUNTS;
use super::check::Paths;
use super::complete::add_states;
use super::copies::Making;
use super::folder;
use super::is_slow;
use super::pack::RECORDS;
use super::record::{Copied, Header, Kind, PathState, Record, RecordedPath, SCHEMA};
use super::source::{MANIFEST, MARK};
use super::started::named;

fn recorded(path: String, kind: Kind, target: Option<&str>) -> RecordedPath {
    let target = target.map(ToOwned::to_owned);
    RecordedPath { path, kind, target, ..RecordedPath::default() }
}

#[test]
fn a_folder_that_another_start_has_made_is_used() {
    let above = tempfile::tempdir().unwrap();
    let folder = above.path().join("becalm");
    assert!(folder::make(&folder) && folder::make(&folder));
}

#[test]
fn files_of_a_pack_without_room_for_them_are_not_begun() {
    let folder = tempfile::tempdir().unwrap();
    let making = Making::of_pack(folder.path()).unwrap();
    let of = |size| Identity { size, ..Identity::of(&look::at(CWD, c"/", false).unwrap()) };
    let fits =
        |sizes: [u64; 2]| making.fits(sizes.map(|size| (Path::new("/a"), of(size))).into_iter());
    assert!(fits([1, 1]) && !fits([1, 1 << 62]) && !fits([u64::MAX, u64::MAX]));
}

#[test]
fn results_count_as_long_as_they_are_renewed_for() {
    let longest = format!("#define LONGEST {}u\n", COUNTS.as_millis());
    assert!(include_str!("../../../audit/module/tree.c").contains(&longest), "{longest}");
}

#[test]
fn what_is_below_a_link_that_leads_nowhere_is_not_missing_in_a_pack() {
    let tree = tempfile::tempdir().unwrap();
    let at = |name: &str| tree.path().join(name).to_str().unwrap().to_owned();
    symlink("/nowhere/plugins", at("plugins")).unwrap();
    let header =
        Header { trees: vec![tree.path().to_str().unwrap().to_owned()], ..Header::default() };
    let paths = ["plugins/x.so", "none/x.so"].map(|it| recorded(at(it), Kind::Absent, None));
    let mut record = Record { header, watched: Vec::new(), paths: paths.to_vec() };
    add_states(&mut record);
    let kinds: Vec<Kind> = record.paths.iter().map(|it| it.kind).collect();
    assert_eq!(kinds, [Kind::Other, Kind::Absent]);
}

#[test]
fn the_page_of_the_format_of_a_pack_has_its_files_and_fields() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/network-file-systems.md");
    let page = fs::read_to_string(page).unwrap();
    let page = page.split("## The format of a pack").nth(1).unwrap().split("\n## ").next().unwrap();
    let identity = Identity::of(&look::at(CWD, c"/", true).unwrap());
    let header = Header {
        programs: vec![String::new()],
        seen: vec![String::new()],
        generation: Some((String::new(), identity)),
        ..Header::default()
    };
    let numbers = look::numbers(&look::at(CWD, c"/", true).unwrap());
    let names = Some(Vec::new());
    let path = RecordedPath {
        target: Some(String::new()),
        copy: Some(Copied { name: String::new(), of: identity, loads: Some(true) }),
        state: Some(PathState { found: numbers, followed: Some(numbers), names }),
        read: true,
        mapped: true,
        kept: true,
        added: true,
        ..RecordedPath::default()
    };
    let [header, path] =
        [serde_json::to_value(header), serde_json::to_value(path)].map(Result::unwrap);
    for object in [&header, &path, &path["copy"], &path["state"]] {
        for name in object.as_object().unwrap().keys() {
            assert!(page.contains(&format!("`{name}`")), "{name}");
        }
    }
    for kind in [Kind::Absent, Kind::File, Kind::Directory, Kind::Link, Kind::Other] {
        let name = serde_json::to_value(kind).unwrap();
        assert!(page.contains(&format!("`{}`", name.as_str().unwrap())), "{name}");
    }
    let mark = String::from_utf8_lossy(MARK);
    for word in [MANIFEST, RECORDS, SCHEMA, mark.trim_end()] {
        assert!(page.contains(word), "{word}");
    }
    assert_eq!(numbers.len(), 20);
}

#[test]
fn a_path_is_a_directory_and_a_plain_name() {
    assert_eq!(RecordedPath::split("/a/b"), Some(("/a", "b")));
    assert_eq!(RecordedPath::split("/a"), Some(("", "a")));
    for path in ["a/b", "/a/", "/a/.", "/a/..", "/a/../b", "", "/"] {
        assert_eq!(RecordedPath::split(path), None, "{path}");
    }
}

#[test]
fn a_record_is_read_as_it_was_written_and_nothing_else_is_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut record = Record::default();
    record.paths.push(recorded("/nfs/a b".to_owned(), Kind::Link, Some("../c")));
    record.paths.push(recorded("/nfs/gone".to_owned(), Kind::Absent, None));
    record.header.trees.push("/nfs".to_owned());
    // Virtual environments that are reached through links have many.
    record.watched = (0..2000).map(|number| format!("/nfs/store/{number}")).collect();
    record.finish(dir.path());
    let file = |bytes: &[u8]| {
        let path = dir.path().join("file");
        fs::write(&path, bytes).unwrap();
        fs::File::open(path).unwrap()
    };
    let text = record.text();
    assert_eq!(Record::read(file(&text)), Some(record.clone()));
    assert_eq!(Header::read(&mut file(&text)), Some(record.header.clone()));
    let shorter = &text[..text.len() - 20];
    let other = String::from_utf8(text.clone()).unwrap().replace("/nfs/gone", "/nfs/gone/..");
    for bad in [&b""[..], b"{}", shorter, &[0; 4096], other.as_bytes()] {
        assert_eq!(Record::read(file(bad)), None, "{}", String::from_utf8_lossy(bad));
    }
    record.paths[0].unused = 16;
    record.finish(dir.path());
    assert_eq!((record.header.paths, record.paths.len()), (1, 1), "an unused path stays");
}

/// The kinds of the entries' states: 0 for the kernel's, 1 absent, 2 found, 3 copied.
fn looked(record: &Record, changes: &Changes) -> (Table, Vec<u64>) {
    let sizes = record.header.sizes();
    let table = Table::map(table::make(sizes, false).unwrap(), sizes).unwrap();
    let paths = Paths::of(record, std::path::Path::new("/nowhere"), is_slow);
    assert!(paths.fill(&table));
    paths.look(&table, changes, true);
    let kinds = (0..record.paths.len()).map(|at| table.kind(at)).collect();
    (table, kinds)
}

#[test]
fn what_is_on_no_network_file_system_is_left_to_the_kernel() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().to_str().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    symlink("file", dir.path().join("link")).unwrap();
    let mut record = Record::default();
    for (name, kind, target) in
        [("file", Kind::File, None), ("link", Kind::Link, Some("file")), ("no", Kind::Absent, None)]
    {
        record.paths.push(recorded(format!("{root}/{name}"), kind, target));
    }
    record.header.trees.push(root.to_owned());
    record.finish(dir.path());
    let changes = Changes::new().unwrap();
    let (table, kinds) = looked(&record, &changes);
    // The trees of the record are not what they were.
    assert_eq!(kinds, [0, 0, 0]);
    assert!(!table.is_taken() && table.told() == Vec::<(u8, Vec<u8>)>::new());
}

#[test]
fn a_program_that_a_script_starts_is_found_by_the_path_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let sleep = fs::canonicalize("/bin/sleep").unwrap();
    let link = dir.path().canonicalize().unwrap().join("environment's sleep");
    symlink(&sleep, &link).unwrap();
    let mut shell = Command::new("/bin/sh")
        .args(["-c", "'./environment'\\''s sleep' 60; true"])
        .current_dir(dir.path())
        .spawn()
        .unwrap();
    let began = Instant::now();
    // At its beginning, a process has the program before it has the arguments.
    let found = loop {
        let is_sleep = |it: &u32| named(*it, &sleep).as_ref() == Some(&link);
        if let Some(process) = family_of(shell.id(), 256).into_iter().find(is_sleep) {
            break process;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "nothing was started");
        std::thread::sleep(Duration::from_millis(5));
    };
    assert_eq!(named(found, std::path::Path::new("/bin/another")), None);
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(found.cast_signed()).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
    shell.wait().unwrap();
}

#[test]
fn a_state_in_a_pack_is_that_of_the_file() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "content").unwrap();
    let found = look::at(CWD, file.path(), false).unwrap();
    let packed = look::facts(&look::numbers(&found));
    assert_eq!(look::numbers(&packed), look::numbers(&found));
    assert_eq!(Identity::of(&packed), Identity::of(&found));
    assert_eq!(look::device(&packed), look::device(&found));
    let owner = |it: &look::Facts| (it.stx_mode, it.stx_nlink, it.stx_uid, it.stx_gid);
    assert_eq!(owner(&packed), owner(&found));
    let rest = |it: &look::Facts| (it.stx_blksize, it.stx_blocks, it.stx_btime.tv_nsec);
    assert_eq!(rest(&packed), rest(&found));
}
