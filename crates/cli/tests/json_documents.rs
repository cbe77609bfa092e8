//! Checks that the output of `--json` has the fields that `docs/json.md` lists, each table with its
//! document.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;
use support::chain;
use support::no_compiler;
use support::store::{Store, nothing_to_test_with, text};

/// The fields of the page's table for a type, with the list marks left out.
fn documented(table: &str) -> BTreeSet<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/json.md");
    let page = fs::read_to_string(page).expect("the page");
    let (_, after) = page.split_once(&format!("<!-- fields: {table} -->")).expect("a table");
    let (rows, _) = after.split_once("<!-- end of fields -->").expect("its end");
    let field = |row: &str| row.strip_prefix("| `")?.split('`').next().map(str::to_owned);
    rows.lines().filter_map(field).map(|field| field.replace("[]", "")).collect()
}

/// Returns the places of all fields of a document.
fn places(value: &Value, place: &str, all: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let place = if place.is_empty() { name.clone() } else { format!("{place}.{name}") };
                all.insert(place.clone());
                places(value, &place, all);
            }
        }
        Value::Array(elements) => elements.iter().for_each(|value| places(value, place, all)),
        _ => {}
    }
}

fn assert_documented(text: &str, table: &str) {
    let document: Value = serde_json::from_str(text).expect("JSON");
    let mut printed = BTreeSet::new();
    places(&document, "", &mut printed);
    assert!(printed.remove("schema"), "{text}");
    let documented = documented(table);
    // Storms and probes have their own part of the page; the exit and the environment have no
    // fixed fields.
    let is_apart = |place: &String| {
        let (above, name) = place.rsplit_once('.').unwrap_or_default();
        let apart =
            ["before", "after", "storm", "total", "predicted", "observed", "probe", "probes"];
        let apart = apart.iter().chain(&["exit", "environment"]);
        let above = above.rsplit('.').next().unwrap_or_default();
        apart.into_iter().any(|part| *part == above) && !name.is_empty()
    };
    let unknown: Vec<&String> = printed.difference(&documented).filter(|p| !is_apart(p)).collect();
    assert!(unknown.is_empty(), "{table} lacks {unknown:?}");
    let top = |field: &&String| !field.contains('.');
    let absent: Vec<&String> = documented.difference(&printed).filter(top).collect();
    assert!(absent.is_empty(), "{table} has {absent:?}, which {text} has not");
}

#[test]
fn fix_verify_and_undo_print_what_the_page_lists() {
    if no_compiler() {
        return;
    }
    for strategy in ["note", "absolute", "farm", "ldcache", "audit"] {
        let store = chain::Store::new();
        let fix = ["fix", "--with", strategy, "--json"];
        let dry = store.becalm(&[&fix[..], &["--dry-run"]].concat());
        assert_documented(&dry.stdout, "crates/lib/src/fix/report.rs Report");
        let fixed = store.becalm(&fix);
        assert_documented(&fixed.stdout, "crates/lib/src/fix/report.rs Report");
        let verified = store.becalm(&["verify", "--load", "--json"]);
        assert_documented(&verified.stdout, "crates/lib/src/verify/mod.rs Report");
        let undone = store.becalm(&["undo", "--json"]);
        assert_documented(&undone.stdout, "crates/lib/src/undo.rs Report");
    }
}

#[test]
fn index_and_its_verification_print_what_the_page_lists() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    let index = store.make_index(&["--dirs", "/not-there", "--paths"]);
    assert_documented(&index.to_string(), "crates/lib/src/index/report.rs Report");
    fs::remove_file(store.one("libone.so")).expect("removed");
    let (file, mut verify) = (store.index(), store.becalm(&["verify", "--json"]));
    let verified = support::run(verify.arg(text(&file)));
    assert!(verified.stdout.contains("\"differences\":[{"), "{verified:?}");
    assert_documented(&verified.stdout, "crates/lib/src/verify/mod.rs Report");
}

#[test]
fn env_prints_what_the_page_lists() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    store.make_index(&[]);
    let index = store.index();
    for flags in [&["--json"][..], &["--json", "--undo"]] {
        let arguments = [&["env", "--index", text(&index)], flags].concat();
        let ran = support::run(&mut store.becalm(&arguments));
        assert_documented(&ran.stdout, "crates/lib/src/env/mod.rs Report");
    }
}

#[test]
fn bench_prints_what_the_page_lists() {
    if no_compiler() {
        return;
    }
    let store = chain::Store::new();
    let mut bench = support::becalm();
    let ran = support::run(bench.args(["bench", "--json", "--rounds", "2"]).arg(store.app()));
    assert_documented(&ran.stdout, "crates/lib/src/bench.rs Report");
}

#[test]
fn advise_doctor_and_cache_print_what_the_page_lists() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::new();
    store.make_index(&[]);
    let app = store.app();
    let advised = support::run(&mut store.becalm(&["advise", "--json", text(&app)]));
    assert_documented(&advised.stdout, "crates/lib/src/advise.rs Report");
    let index = store.index();
    let doctor = support::run(&mut store.becalm(&["doctor", "--json", "--index", text(&index)]));
    assert_documented(&doctor.stdout, "crates/lib/src/doctor/mod.rs Report");
    let cache = support::run(&mut store.becalm(&["cache", "--json"]));
    assert_documented(&cache.stdout, "crates/lib/src/cache.rs CacheReport");
}

#[test]
fn trace_prints_what_the_page_lists() {
    if no_compiler() {
        return;
    }
    let store = chain::Store::new();
    let mut trace = support::becalm();
    let ran = support::run(trace.args(["trace", "--json", "--"]).arg(store.app()));
    let line = ran.stdout.lines().last().expect("a line");
    assert_documented(line, "crates/lib/src/trace/report.rs Report");
}

#[test]
fn check_prints_what_the_page_lists() {
    if no_compiler() {
        return;
    }
    let store = chain::Store::new();
    let app = store.app();
    for flag in ["--probes", "--files", "--symbols", "--bindings"] {
        let mut check = support::becalm();
        let ran = support::run(check.args(["check", "--json", flag]).arg(&app));
        assert_documented(&ran.stdout, "crates/lib/src/check.rs Report");
    }
}
