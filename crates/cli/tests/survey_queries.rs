//! The queries of `docs/survey.md`, run by DuckDB over a survey of a small store.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use becalm_testing::skip;
use serde_json::Value;
use support::store::{FLAT, Store, nothing_to_test_with, text};
use support::{becalm, run};

/// Runs the statements on standard input and prints each result as a JSON list of objects.
const RUNNER: &str = r#"
import duckdb, json, sys
connection = duckdb.connect()
results = []
for statement in json.load(sys.stdin):
    cursor = connection.execute(statement)
    names = [column[0] for column in cursor.description]
    results.append([dict(zip(names, row)) for row in cursor.fetchall()])
json.dump(results, sys.stdout, default=str)
"#;

/// The Python of scripts/setup, which has DuckDB.
fn python() -> Option<PathBuf> {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/bin/python");
    let has = Command::new(&python).args(["-c", "import duckdb"]).output();
    has.is_ok_and(|output| output.status.success()).then_some(python)
}

/// The blocks of SQL, in order.
fn queries() -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/survey.md");
    let page = fs::read_to_string(page).expect("the page");
    let blocks = page.split("```sql\n").skip(1);
    blocks.map(|block| block.split("```").next().expect("an end").to_owned()).collect()
}

#[test]
fn the_documented_queries_find_the_worst_packages_owners_and_starts() {
    if nothing_to_test_with() {
        return;
    }
    let Some(python) = python() else {
        skip("no DuckDB (scripts/setup installs it)");
        return;
    };
    let store = Store::of(FLAT);
    let (root, app) = (store.root(), store.app());
    for shard in ["1/2", "2/2"] {
        let arguments =
            ["check", "--ndjson", "--shard", shard, "--store", text(&root), text(&root)];
        let ran = run(becalm().args(arguments));
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let name = format!("survey-{}.ndjson", &shard[..1]);
        fs::write(store.path(&name), ran.stdout).expect("written");
    }
    fs::write(store.path("starts.csv"), format!("path,starts\n{},1000\n", text(&app)))
        .expect("written");
    let queries = queries();
    let input = store.path("queries.json");
    fs::write(&input, serde_json::to_vec(&queries).expect("JSON")).expect("written");
    let mut python = Command::new(python);
    python.args(["-c", RUNNER]).current_dir(store.path(""));
    python.stdin(fs::File::open(&input).expect("readable"));
    let ran = run(&mut python);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let results: Vec<Vec<Value>> = serde_json::from_str(&ran.stdout).expect("JSON");
    let [_, packages, owners, starts, releases, broken] = results.as_slice() else {
        panic!("{} queries", results.len());
    };
    assert_eq!(packages[0]["package"], text(&root.join(FLAT[0])));
    let misses =
        packages[0]["misses"].as_u64().or_else(|| packages[0]["misses"].as_str()?.parse().ok());
    let misses = misses.expect("a number");
    assert!(misses > 0, "{packages:?}");
    let files: u64 = owners.iter().filter_map(|owner| owner["files"].as_u64()).sum();
    assert_eq!(files, 3, "{owners:?}");
    assert_eq!(starts[0]["path"], text(&app));
    assert_eq!(starts[0]["failing_calls"].as_u64(), Some(1000 * misses), "{starts:?}");
    assert!(
        releases[0]["libc"].as_str().is_some_and(|libc| libc.starts_with("glibc-")),
        "{releases:?}"
    );
    assert!(broken.is_empty(), "{broken:?}");
}
