//! Tests of the list of programs without ready pages, and of the folder of ready pages.

use std::fs;
use std::path::Path;

use super::make::make_room;
use super::names;

#[test]
fn files_that_another_becalm_makes_stay() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in [".at-work", "0123-4567", "0123-4567.lock"] {
        fs::write(folder.path().join(name), "not ready").expect("written");
    }
    make_room(folder.path());
    let is_there = |name: &str| folder.path().join(name).exists();
    assert!(is_there(".at-work") && is_there("0123-4567.lock"));
    assert!(!is_there("0123-4567"));
}

#[test]
fn the_list_has_names_and_paths() {
    let real = Path::new("/usr/bin/app");
    for list in ["app", "other\n app \n", "/usr/bin/app", "x\n/usr/bin/app"] {
        assert!(names(list.as_bytes(), real), "{list:?}");
    }
    for list in ["", "\n", "ap", "apps", "/bin/app", "bin/app"] {
        assert!(!names(list.as_bytes(), real), "{list:?}");
    }
}
