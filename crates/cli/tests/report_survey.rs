//! `becalm report --survey`: a page about the lines of `becalm check --ndjson`.

mod support;

use std::cmp::Reverse;
use std::fs::{self, File};

use serde_json::Value;

use support::store::{FLAT, Store, nothing_to_test_with, text};
use support::{becalm, run};

#[test]
fn the_page_names_the_worst_packages_and_programs() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::of(FLAT);
    let (root, lines, page) = (store.root(), store.path("survey.ndjson"), store.path("page.html"));
    let survey = run(becalm().args(["check", "--ndjson", "--store", text(&root), text(&root)]));
    assert_eq!(survey.code, Some(0), "{survey:?}");
    fs::write(&lines, &survey.stdout).expect("written");
    let ran = run(becalm().args(["report", "--survey", text(&lines), "-o", text(&page)]));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let html = fs::read_to_string(&page).expect("a page");
    for part in [text(&store.app()), text(&root.join(FLAT[0])), "1 program", "Owners", "glibc-"] {
        assert!(html.contains(part), "{part}: {html}");
    }
    assert!(!html.contains("src=") && !html.contains("http:"), "the page loads nothing");
    let again = store.path("again.html");
    let mut report = becalm();
    report.args(["report", "--survey", "-", "-o", text(&again)]);
    let ran = run(report.stdin(File::open(&lines).expect("the lines")));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(fs::read_to_string(&again).expect("a page"), html);
}

#[test]
fn a_folder_gets_the_survey_by_time_and_a_page_of_each_file() {
    if nothing_to_test_with() {
        return;
    }
    let store = Store::of(FLAT);
    let (root, lines, pages) = (store.root(), store.path("survey.ndjson"), store.path("pages"));
    fs::create_dir(&pages).expect("a folder");
    // More than the rows that are open at first.
    for number in 0..30 {
        let copy = store.app().with_file_name(format!("app{number}"));
        fs::copy(store.app(), copy).expect("copied");
    }
    let root = text(&root);
    let survey = ["check", "--ndjson", "--times", "--store", root, root];
    let survey = run(becalm().args(survey));
    assert!(survey.stdout.contains("\"indexed_ns\":"), "{survey:?}");
    fs::write(&lines, &survey.stdout).expect("written");
    let ran = run(becalm().args(["report", "--survey", text(&lines), "-o", text(&pages)]));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let html = fs::read_to_string(pages.join("index.html")).expect("a page");
    let links = html.split("<a href=\"").skip(1).filter_map(|it| it.split('"').next());
    let own: Vec<String> =
        links.map(|link| fs::read_to_string(pages.join(link)).expect("its page")).collect();
    for (page, path) in own.iter().zip(listed(&survey.stdout)) {
        assert!(page.contains(&path) && page.contains("What would help"), "{path}: {page}");
    }
    assert_eq!(own.len(), listed(&survey.stdout).len());
    assert!(own.len() > 30, "{html}");
}

/// Returns the files that lose something, in the order of the page: programs first, most first.
fn listed(lines: &str) -> Vec<String> {
    let number = |line: &Value, path: &str| line.pointer(path).and_then(Value::as_u64);
    let lost = |line: &Value| {
        let saved = number(line, "/estimate/loader_ns").zip(number(line, "/estimate/indexed_ns"));
        let misses = ["/storm/missed_opens", "/storm/missed_stats"].map(|it| number(line, it));
        let misses: u64 = misses.into_iter().flatten().sum();
        (saved.map_or(0, |(plain, indexed)| plain.saturating_sub(indexed)), misses)
    };
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line"));
    let mut lines: Vec<Value> = lines.filter(|line| lost(line) > (0, 0)).collect();
    let path = |line: &Value| line["path"].as_str().unwrap_or_default().to_owned();
    lines.sort_by_key(|line| (line["kind"] == "library", Reverse(lost(line)), path(line)));
    lines.iter().map(path).collect()
}

#[test]
fn what_is_no_survey_is_refused_with_its_line() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let (lines, page) = (dir.path().join("lines"), dir.path().join("page.html"));
    fs::write(&lines, "{\"schema\":\"becalm/check/1\",\"path\":\"/x\"}\n").expect("written");
    let ran = run(becalm().args(["report", "--survey", text(&lines), "-o", text(&page)]));
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("line 1 is of schema becalm/check/1"), "{ran:?}");
    assert!(!page.exists());
    let neither = run(becalm().args(["report", "-o", text(&page)]));
    assert_eq!(neither.code, Some(2), "{neither:?}");
}
