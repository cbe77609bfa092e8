//! Directories of `LD_LIBRARY_PATH` in an index: those of the session and of module files.

mod support;

use std::fs;

use serde_json::Value;
use support::store::{Store, json, let_the_clock_pass, nothing_to_test_with, text};
use support::{Ran, run};

fn snapshotted(made: &Value) -> u64 {
    made["directories"]["snapshotted"].as_u64().expect("a count")
}

#[test]
fn the_directories_of_ld_library_path_are_in_an_index_without_being_named() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let (root, index) = (store.root(), store.index());
    let list = format!("{}:{}::relative", store.module_dirs(3), text(&store.path("absent")));
    let arguments = ["index", text(&root), "-o", text(&index), "--json"];
    let ran = store.with_library_path(&arguments, &list);
    assert_eq!((snapshotted(&json(&ran)), ran.stderr.as_str()), (4, ""));
    let none = store.with_library_path(&[&arguments[..], &["--dirs", ""]].concat(), &list);
    assert_eq!(snapshotted(&json(&none)), 0);
    // An index that is up to date lacks them, and says so; an update adds them and keeps them.
    let update = ["index", "--update", "-o", text(&index), "--json"];
    let ran = store.with_library_path(&update, &list);
    assert_eq!(json(&ran)["written"], false);
    assert!(ran.stderr.contains("4 directories of LD_LIBRARY_PATH not in it"), "{ran:?}");
    let added = json(&run(&mut store.becalm(&[&update[..], &["--dirs", &list]].concat())));
    assert_eq!(snapshotted(&added), 4);
    let ran = store.with_library_path(&update, &list);
    assert_eq!((json(&ran)["written"].clone(), ran.stderr.as_str()), (false.into(), ""));
    fs::create_dir(store.path("more")).expect("made");
    let_the_clock_pass();
    let more = store.path("more");
    let added = json(&run(&mut store.becalm(&[&update[..], &["--dirs", text(&more)]].concat())));
    assert_eq!(snapshotted(&added), 5);
}

#[test]
fn doctor_finds_directories_of_ld_library_path_that_are_not_in_the_index() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    store.make_index(&[]);
    let (index, list) = (store.index(), store.module_dirs(3));
    let examined = || {
        let mut doctor = store.becalm(&["doctor", "--json"]);
        run(doctor.env("LD_AUDIT", store.index()).env("LD_LIBRARY_PATH", &list))
    };
    let findings = |ran: &Ran| -> Vec<Value> {
        let report: Value = serde_json::from_str(&ran.stdout).expect("JSON");
        let all = report["findings"].as_array().expect("findings").clone();
        all.into_iter().filter(|finding| finding["kind"] == "library-path").collect()
    };
    let ran = examined();
    let found = findings(&ran);
    assert_eq!((ran.code, found.len()), (Some(1), 1), "{ran:?}");
    assert!(found[0]["what"].as_str().expect("text").starts_with("3 directories of"), "{ran:?}");
    let remedy = found[0]["remedy"].as_str().expect("a command").to_owned();
    assert!(remedy.contains("--dirs \"$LD_LIBRARY_PATH\""), "{remedy}");
    store.with_library_path(&["index", "--update", "-o", text(&index), "--dirs", &list], &list);
    assert_eq!(findings(&examined()), [] as [Value; 0]);
}

#[test]
fn the_directories_that_module_files_name_are_in_an_index() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    store.module_dirs(3);
    let (apps, index) = (store.path("apps"), store.index());
    let modules = store.path("modules");
    fs::create_dir_all(modules.join("a")).expect("made");
    let lua = format!(
        "local root = \"{0}/m0\"\nprepend_path(\"LD_LIBRARY_PATH\", pathJoin(root, \"lib\"))\n\
         prepend_path(\"LD_LIBRARY_PATH\", os.getenv(\"X\"))\n",
        text(&apps)
    );
    fs::write(modules.join("a/1.0.lua"), lua).expect("written");
    let tcl = format!(
        "#%Module\nprepend-path LD_LIBRARY_PATH {0}/m1/lib\n\
         prepend-path LD_LIBRARY_PATH /nonexistent-becalm\n",
        text(&apps)
    );
    fs::write(modules.join("b"), tcl).expect("written");
    let root = store.root();
    let stores = ["index", text(&root), text(&apps), "-o", text(&index), "--json"];
    let named = [&stores[..], &["--modules", text(&modules)]].concat();
    let made = json(&run(&mut store.becalm(&named)));
    assert_eq!(snapshotted(&made), 3, "{made}");
    let line = format!("{}:3", text(&modules.join("a/1.0.lua")));
    assert_eq!(made["directories"]["modules_not_understood"], serde_json::json!([line]));
    let mistyped = store.path("modulse");
    let named = [&stores[..], &["--modules", text(&mistyped)]].concat();
    let ran = run(&mut store.becalm(&named));
    assert!(ran.stderr.contains("modulse: no folder"), "{ran:?}");
    // Of the modules of a session, only what is in the stores.
    let made = json(&run(store.becalm(&stores).env("MODULEPATH", &modules)));
    assert_eq!(snapshotted(&made), 2, "{made}");
}
