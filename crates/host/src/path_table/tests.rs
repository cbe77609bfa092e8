//! Tables of stores made here.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use becalm_core::index::paths::Answer;

use super::*;

/// A store of two packages, older than the clock's grain.
fn store() -> (tempfile::TempDir, PathBuf) {
    let temp = tempfile::tempdir().expect("a folder");
    let store = temp.path().canonicalize().expect("a path").join("store");
    let a = store.join("0123456789abcdfghijklmnpqrsvwxyz-a");
    let b = store.join("1123456789abcdfghijklmnpqrsvwxyz-b");
    fs::create_dir_all(a.join("lib/python")).expect("made");
    fs::create_dir_all(b.join("share")).expect("made");
    fs::write(a.join("lib/python/one.py"), "").expect("made");
    fs::write(b.join("share/two"), "").expect("made");
    symlink("../../1123456789abcdfghijklmnpqrsvwxyz-b/share", a.join("lib/link")).expect("made");
    symlink("link", a.join("lib/again")).expect("made");
    symlink("/nowhere", a.join("lib/dangling")).expect("made");
    fs::create_dir_all(store.join("other/lib")).expect("made");
    std::thread::sleep(std::time::Duration::from_millis(250));
    (temp, store)
}

fn stores(path: &Path, any_name: bool) -> [PathStore; 1] {
    let packages = if any_name { Packages::Any } else { Packages::Hashed };
    [PathStore { path: path.to_owned(), packages }]
}

#[test]
fn everything_below_a_package_is_in_the_table() {
    let (_temp, store) = store();
    let table = path_table(&stores(&store, false), None, &[]).expect("a table");
    assert_eq!((table.paths.packages.len(), table.read), (2, 2));
    let ask = |path: &str| table.paths.ask(store.join(path).as_os_str().as_bytes());
    let a = "0123456789abcdfghijklmnpqrsvwxyz-a";
    assert_eq!(ask(&format!("{a}/lib/python")), Answer::Directory);
    assert_eq!(ask(&format!("{a}/lib/python/one.py")), Answer::File);
    assert_eq!(ask(&format!("{a}/lib/python/two.py")), Answer::Absent);
    assert_eq!(ask(&format!("{a}/lib/link/three")), Answer::Absent);
    assert_eq!(ask(&format!("{a}/lib/link/two")), Answer::Unknown);
    // Two links one after the other, and one to nowhere, are the kernel's.
    assert_eq!(ask(&format!("{a}/lib/again/three")), Answer::Unknown);
    assert_eq!(ask(&format!("{a}/lib/dangling")), Answer::Unknown);
    assert_eq!(ask("other/nothing"), Answer::Unknown);
    let all = path_table(&stores(&store, true), None, &[]).expect("a table");
    assert_eq!(all.paths.ask(store.join("other/no").as_os_str().as_bytes()), Answer::Absent);
}

#[test]
fn what_is_not_as_it_should_be_is_left_out_as_a_whole() {
    let (_temp, store) = store();
    let a = store.join("0123456789abcdfghijklmnpqrsvwxyz-a");
    fs::write(a.join("lib/new"), "").expect("made");
    let table = path_table(&stores(&store, false), None, &[]).expect("a table");
    let path: BString = a.as_os_str().as_bytes().into();
    assert_eq!(table.left_out, [(path, CHANGING)]);
    assert_eq!(table.paths.ask(a.join("no").as_os_str().as_bytes()), Answer::Unknown);
    // An update reads it.
    assert!(!path_table_is_current(&table.paths));
    // A lock shows that the package is being built. A store whose own listing is young is never the
    // same.
    fs::write(store.join("1123456789abcdfghijklmnpqrsvwxyz-b.lock"), "").expect("made");
    let table = path_table(&stores(&store, false), None, &[]).expect("a table");
    assert_eq!(table.paths.count(), 0);
    assert_eq!(table.left_out.len(), 2);
    assert_eq!(table.paths.roots[0].fingerprint.mtime.sec, i64::MIN);
}

#[test]
fn an_update_reads_changed_packages_only() {
    let (_temp, store) = store();
    let mut old = path_table(&stores(&store, false), None, &[]).expect("a table").paths;
    // Everything here is young, and current as long as reading it again gives the same.
    assert!(old.packages.iter().all(|package| package.young));
    assert!(path_table_is_current(&old));
    let deep = store.join("0123456789abcdfghijklmnpqrsvwxyz-a/lib/python/late.py");
    fs::write(&deep, "").expect("made");
    std::thread::sleep(std::time::Duration::from_millis(250));
    assert!(!path_table_is_current(&old));
    old = path_table(&stores(&store, false), Some(&old), &[]).expect("a table").paths;
    old.packages.iter_mut().for_each(|package| package.young = false);
    assert!(path_table_is_current(&old));
    fs::create_dir(store.join("1123456789abcdfghijklmnpqrsvwxyz-b/new")).expect("made");
    fs::create_dir(store.join("2123456789abcdfghijklmnpqrsvwxyz-c")).expect("made");
    std::thread::sleep(std::time::Duration::from_millis(250));
    assert!(!path_table_is_current(&old));
    let new = path_table(&stores(&store, false), Some(&old), &[]).expect("a table");
    assert_eq!((new.paths.packages.len(), new.read), (3, 2));
    let whole = path_table(&stores(&store, false), None, &[]).expect("a table");
    let tables = |paths: &Paths| {
        paths.packages.iter().map(|package| package.table.clone()).collect::<Vec<_>>()
    };
    assert_eq!(tables(&new.paths), tables(&whole.paths));
}

#[test]
fn some_packages_of_a_store_can_be_chosen_and_an_update_adds_none() {
    let (_temp, store) = store();
    let chosen = ["0123456789abcdfghijklmnpqrsvwxyz-a".into(), "none".into()];
    let chosen = Packages::Chosen(chosen.to_vec());
    let stores = [PathStore { path: store.clone(), packages: chosen }];
    let table = path_table(&stores, None, &[]).expect("a table").paths;
    assert_eq!(table.packages.len(), 1);
    assert!(table.roots[0].is_chosen);
    let mut old = table.clone();
    old.packages[0].young = false;
    fs::create_dir(store.join("3123456789abcdfghijklmnpqrsvwxyz-d")).expect("made");
    assert!(path_table_is_current(&old));
    fs::create_dir(store.join("0123456789abcdfghijklmnpqrsvwxyz-a/new")).expect("made");
    assert!(!path_table_is_current(&old));
}

#[test]
fn a_store_at_an_odd_path_has_no_table() {
    let temp = tempfile::tempdir().expect("a folder");
    let store = temp.path().join("with space");
    fs::create_dir(&store).expect("made");
    let table = path_table(&stores(&store, true), None, &[]);
    assert!(matches!(table, Err(HostError::Unusable { .. })));
    let missing = path_table(&stores(&temp.path().join("no"), true), None, &[]);
    assert!(matches!(missing, Err(HostError::Read { .. })));
}

#[test]
fn links_are_followed_by_their_letters() {
    let resolved = |text: &[u8]| path::normal(&path::of_target(b"/s/a/lib/x", text));
    assert_eq!(resolved(b"../y/./z"), "/s/a/y/z");
    assert_eq!(resolved(b"/t//u/.."), "/t");
}
