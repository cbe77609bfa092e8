//! `becalm index --update`: only changed files are read again, and the result is the same as that
//! of a new index.

mod support;

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use support::store::{FLAT, NESTED, Store, json, let_the_clock_pass, nothing_to_test_with, text};
use support::{is_missing, run};

fn update(store: &Store) -> Value {
    let index = store.index();
    json(&run(&mut store.becalm(&["index", "--update", "-o", text(&index), "--json"])))
}

/// Asserts that an updated index equals a new one.
fn assert_as_new(store: &Store, updated: &Value) {
    let (root, other, index) = (store.root(), store.path("other.so"), store.index());
    let all = json(&run(&mut store.becalm(&["index", text(&root), "-o", text(&other), "--json"])));
    for field in ["objects", "edges", "left", "static_tls"] {
        assert_eq!(updated[field], all[field], "{field}: {updated}, {all}");
    }
    assert_eq!(all["kept"], 0);
    let verified = run(&mut store.becalm(&["verify", text(&index)]));
    assert_eq!(verified.code, Some(0), "{verified:?}");
}

fn indexed(packages: [&'static str; 3]) -> Store {
    let store = Store::of(packages);
    let_the_clock_pass();
    store.make_index(&[]);
    store
}

#[test]
fn the_objects_of_unchanged_packages_are_not_opened() {
    if nothing_to_test_with() {
        return;
    }
    if is_missing("strace", "strace") {
        return;
    }
    for packages in [FLAT, NESTED] {
        let store = indexed(packages);
        let package = store.root().join("456789abcdfghijklmnpqrsvwxyz0123-app-2/bin");
        fs::create_dir_all(&package).expect("made");
        fs::copy(store.app(), package.join("app")).expect("copied");
        let_the_clock_pass();
        let out = store.path("calls");
        let opened = |arguments: &[&str]| -> (usize, usize, Value) {
            let becalm = store.becalm(arguments);
            let mut strace = Command::new("strace");
            // -y names the file behind each descriptor.
            strace.args(["-f", "-y", "-e", "trace=open,openat,openat2", "-o", text(&out)]);
            strace
                .arg(becalm.get_program())
                .args(becalm.get_args())
                .env("HOME", store.path("home"));
            let ran = json(&run(&mut strace));
            let calls = fs::read_to_string(&out).expect("calls");
            let opens = |file: &Path| calls.matches(&format!("<{}>\n", text(file))).count();
            (opens(&store.app()), opens(&package.join("app")), ran)
        };
        let (index, root, other) = (store.index(), store.root(), store.path("new.so"));
        let (old, new, updated) = opened(&["index", "--update", "-o", text(&index), "--json"]);
        assert!(old == 0 && new > 0, "{old} {new}");
        assert_eq!((&updated["objects"], &updated["kept"]), (&Value::from(2), &Value::from(1)));
        let (old, new, _) = opened(&["index", text(&root), "-o", text(&other), "--json"]);
        assert!(old > 0 && new > 0, "the control opens both: {old} {new}");
        assert_as_new(&store, &updated);
    }
}

/// The prefixes that count without `--store` may differ from those the index was made with; if none
/// of them exists, this passes anyhow.
#[test]
fn an_index_made_with_another_store_prefix_is_not_made_anew() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::of(FLAT);
    let (root, other, index) = (store.root(), store.path("root"), store.index());
    // What is walked searches in the prefix.
    fs::create_dir_all(&other).expect("made");
    let app = other.join("56789abcdfghijklmnpqrsvwxyz01234-app-3");
    fs::create_dir_all(app.join("bin")).expect("made");
    fs::copy(store.app(), app.join("bin/app")).expect("copied");
    let_the_clock_pass();
    let made = ["index", text(&other), "--store", text(&root), "-o", text(&index), "--json"];
    assert_eq!(json(&run(&mut store.becalm(&made)))["kept"], 0);
    let second = other.join("6789abcdfghijklmnpqrsvwxyz012345-app-4/bin");
    fs::create_dir_all(&second).expect("made");
    fs::copy(store.app(), second.join("app")).expect("copied");
    let_the_clock_pass();
    let updated = update(&store);
    assert_eq!((&updated["objects"], &updated["kept"]), (&Value::from(2), &Value::from(1)));
    assert_eq!(run(&mut store.becalm(&["verify", text(&index)])).code, Some(0));
}

#[test]
fn a_file_changed_in_place_is_read_again_though_its_directory_is_as_it_was() {
    if nothing_to_test_with() {
        return;
    }
    let store = indexed(FLAT);
    let dir = store.app().parent().expect("a directory").to_owned();
    let before = dir.metadata().expect("there").modified().expect("a time");
    // The same run path in another order: other answers if both directories have the name.
    let bytes = fs::read(store.app()).expect("read");
    let [_, one, two] = FLAT;
    let swapped = swap(&bytes, one.as_bytes(), two.as_bytes());
    fs::write(store.app(), swapped).expect("written");
    assert_eq!(dir.metadata().expect("there").modified().expect("a time"), before);
    let_the_clock_pass();
    let updated = update(&store);
    assert_eq!((&updated["written"], &updated["kept"]), (&Value::Bool(true), &Value::from(0)));
    assert_as_new(&store, &updated);
    assert_eq!(run(&mut store.calmed()).stdout, "one two\n");
    assert_eq!(update(&store)["written"], false);
}

/// Swaps two strings of the same length.
fn swap(bytes: &[u8], a: &[u8], b: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    for at in 0..bytes.len() - a.len() {
        let here = &bytes[at..at + a.len()];
        if here == a {
            out[at..at + a.len()].copy_from_slice(b);
        } else if here == b {
            out[at..at + a.len()].copy_from_slice(a);
        }
    }
    assert_ne!(out, bytes);
    out
}

#[test]
fn an_object_is_asked_again_where_a_directory_it_searches_changed() {
    if nothing_to_test_with() {
        return;
    }
    for packages in [FLAT, NESTED] {
        let store = indexed(packages);
        fs::copy(store.path("other/libone.so"), store.two("libone.so")).expect("copied");
        let_the_clock_pass();
        let updated = update(&store);
        assert_eq!(updated["kept"], 0, "{updated}");
        assert_as_new(&store, &updated);
        assert_eq!(run(&mut store.calmed()).stdout, "mine two\n");
        fs::remove_file(store.two("libone.so")).expect("removed");
        let_the_clock_pass();
        let updated = update(&store);
        assert_as_new(&store, &updated);
        assert_eq!(run(&mut store.calmed()).stdout, "one two\n");
    }
}

#[test]
fn a_package_that_is_gone_is_dropped_and_one_that_comes_where_it_was_is_read() {
    if nothing_to_test_with() {
        return;
    }
    let store = indexed(FLAT);
    let (package, away) = (store.root().join(FLAT[1]), store.path("away"));
    fs::rename(&package, &away).expect("moved");
    let_the_clock_pass();
    let updated = update(&store);
    assert!(updated["left"].to_string().contains("not-found"), "{updated}");
    assert_as_new(&store, &updated);
    fs::rename(&away, &package).expect("moved");
    let_the_clock_pass();
    let updated = update(&store);
    assert_eq!(updated["left"], Value::Array(Vec::new()), "{updated}");
    assert_as_new(&store, &updated);
    assert_eq!(store.missed_opens(true, None), 0);
}

#[test]
fn a_folder_that_was_empty_is_looked_into_when_it_fills() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::of(NESTED);
    let late = store.root().join("gcc/late/1/bin");
    fs::create_dir_all(&late).expect("made");
    let_the_clock_pass();
    store.make_index(&[]);
    fs::copy(store.app(), late.join("app")).expect("copied");
    let_the_clock_pass();
    let updated = update(&store);
    assert_eq!((&updated["objects"], &updated["kept"]), (&Value::from(2), &Value::from(1)));
    assert_as_new(&store, &updated);
}

#[test]
fn static_tls_of_a_kept_program_follows_the_library_that_changed() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    // The library has a run path of its own, so that it is an object of the index.
    let library = |size: usize| {
        store.source(
            "one.c",
            &format!(
                "static __thread char big[{size}] __attribute__((tls_model(\"initial-exec\")));\n\
                 const char *one(void) {{ big[0] = 1; return big[0] ? \"one\" : \"none\"; }}\n"
            ),
        );
        store.library("one.c", &store.one("libone.so"));
    };
    library(10);
    let_the_clock_pass();
    assert_eq!(store.make_index(&[])["static_tls"], Value::Array(Vec::new()));
    library(3000);
    let_the_clock_pass();
    let updated = update(&store);
    assert_eq!(updated["static_tls"][0]["path"], text(&store.app()), "{updated}");
    assert_as_new(&store, &updated);
}
