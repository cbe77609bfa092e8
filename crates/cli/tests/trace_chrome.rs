//! `becalm trace --format chrome`: the events follow the rules of the Trace Event format, and show the
//! start in time.

mod support;

use std::collections::BTreeMap;
use std::fs;

use becalm_testing::skip;
use serde_json::Value;
use support::{becalm, cc, cc_library, no_compiler, run};

fn trace(arguments: &[&str]) -> Value {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let file = dir.path().join("start.json");
    let ran = run(becalm().args(["trace", "--format", "chrome", "-o"]).arg(&file).args(arguments));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    serde_json::from_slice(&fs::read(&file).expect("a document")).expect("JSON")
}

fn number(event: &Value, field: &str) -> f64 {
    event[field].as_f64().unwrap_or_else(|| panic!("no {field}: {event}"))
}

/// Checks the rules of the format: the phases, the times, and that spans of a thread nest exactly (speedscope
/// shows spans that overlap by a rounding error as nested).
fn assert_valid(document: &Value) -> Vec<&Value> {
    let events = document["traceEvents"].as_array().expect("events");
    let mut threads: BTreeMap<(u64, u64), Vec<(f64, f64)>> = BTreeMap::new();
    for event in events {
        let id = |field: &str| event[field].as_u64().unwrap_or_else(|| panic!("{event}"));
        assert!(event["name"].is_string(), "{event}");
        match event["ph"].as_str() {
            Some("M") => continue,
            Some("X") => {}
            _ => panic!("an unknown phase: {event}"),
        }
        let (from, length) = (number(event, "ts"), number(event, "dur"));
        assert!(from >= 0.0 && length >= 0.0 && event["cat"].is_string(), "{event}");
        threads.entry((id("pid"), id("tid"))).or_default().push((from, from + length));
    }
    for spans in threads.values_mut() {
        spans.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
        let mut open: Vec<f64> = Vec::new();
        for (from, to) in spans {
            open.retain(|end| end > from);
            let inner = open.last().copied().unwrap_or(f64::INFINITY);
            assert!(*to <= inner, "{from} to {to} leaves its parent, which ends {inner}");
            open.push(*to);
        }
    }
    events.iter().filter(|event| event["ph"] == "X").collect()
}

#[test]
fn searches_lie_within_the_loaders_phase_and_name_their_misses() {
    if no_compiler() {
        return;
    }
    let dir = tempfile::tempdir().expect("a scratch directory");
    for sub in ["a", "b"] {
        fs::create_dir(dir.path().join(sub)).expect("made");
    }
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).expect("written");
    write("one.c", "int one(void) { return 0; }\n");
    write("app.c", "int one(void);\nint main(void) { return one(); }\n");
    cc_library(dir.path(), "one.c", "b/libone.so", &[]);
    cc(dir.path(), &["app.c", "-o", "app", "-Wl,-rpath,$ORIGIN/a:$ORIGIN/b", "b/libone.so"]);
    let document = trace(&["--", dir.path().join("app").to_str().expect("UTF-8")]);
    if document["otherData"]["opens_alone"] == true {
        skip("no program can be traced here");
        return;
    }
    let spans = assert_valid(&document);
    let of = |cat: &str| spans.iter().filter(|it| it["cat"] == cat).copied().collect::<Vec<_>>();
    let (phases, searches) = (of("phase"), of("search"));
    assert_eq!((phases[0]["name"].as_str(), of("process").len()), (Some("loader"), 1));
    let entry = number(phases[0], "ts") + number(phases[0], "dur");
    assert!(searches.iter().all(|it| number(it, "ts") <= entry), "{searches:?}");
    let one = searches.iter().find(|it| it["name"] == "libone.so").expect("libone.so");
    let misses = one["args"]["misses"].as_u64().expect("a number");
    let is_inside = |it: &&Value| {
        number(it, "ts") >= number(one, "ts")
            && number(it, "ts") < number(one, "ts") + number(one, "dur")
    };
    let missed = |it: &&Value| it["args"]["errno"] == 2 && is_inside(it);
    assert!(misses > 0, "no file in the first directory");
    assert_eq!(of("loader").iter().copied().filter(missed).count() as u64, misses, "{one}");
}

#[test]
fn processes_and_threads_have_spans_of_their_own() {
    let arguments = ["--follow", "--", "/bin/sh", "-c", "/bin/ls / >/dev/null; exec /bin/true"];
    let document = trace(&arguments);
    if document["otherData"]["opens_alone"] == true {
        skip("no program can be traced here");
        return;
    }
    let spans = assert_valid(&document);
    let name = |it: &&Value| it["name"].as_str().map(ToOwned::to_owned);
    let names: Vec<_> = spans
        .iter()
        .filter(|it| it["cat"] == "process")
        .copied()
        .filter_map(|it| name(&it))
        .collect();
    for program in ["sh", "ls", "true"] {
        assert!(names.iter().any(|name| name == program), "{program}: {names:?}");
    }
}
