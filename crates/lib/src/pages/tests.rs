//! Tests of the list of programs without ready pages.

use std::path::Path;

use super::names;

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
