//! Predictions for a tree that is linked with `DT_RPATH`, against its starts.

mod support;

use serde_json::Value;
use support::chain::Store;
use support::store::json;
use support::{becalm, no_compiler, run};

/// Failing calls.
fn misses(cost: &Value) -> u64 {
    let count = |what: &str| cost[what].as_u64().unwrap_or_else(|| panic!("no {what}: {cost}"));
    count("missed_opens") + count("missed_stats")
}

/// Failing calls of a real start until the entry point.
fn traced(store: &Store) -> u64 {
    let out = store.dir.path().join("run.json");
    let ran = run(becalm().args(["trace", "--json", "-o"]).arg(&out).arg("--").arg(store.app()));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let report: Value =
        serde_json::from_slice(&std::fs::read(&out).expect("a report")).expect("JSON");
    misses(&report["images"][0]["storm"])
}

#[test]
fn misses_that_an_index_leaves_are_predicted_for_dt_rpath() {
    if no_compiler() {
        return;
    }
    let store = Store::of_rpath();
    let plain = traced(&store);
    assert_eq!(store.misses(), plain);
    let advice = json(&store.on(&["advise", "--json"], &store.app()));
    let options = advice["options"].as_array().expect("options");
    let index = options.iter().find(|option| option["strategy"] == "index").expect("an index");
    let fix = ["fix", "--with", "audit", "--json"];
    let planned = json(&store.on(&[&fix[..], &["--dry-run"]].concat(), &store.app()));
    let done = json(&store.on(&fix, &store.app()));
    let real = traced(&store);
    assert!(real < plain, "{real} of {plain}");
    assert_eq!(index["misses"], real, "{advice}");
    assert_eq!(misses(&planned["programs"][0]["after"]), real, "{planned}");
    assert_eq!(misses(&done["programs"][0]["after"]), real, "{done}");
    assert_eq!(store.misses(), real);
    assert_eq!(store.prints(), "1 2\n");
}
