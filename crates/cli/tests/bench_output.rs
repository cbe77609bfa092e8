//! `becalm bench`: its output forms agree, and starts that cannot be measured are reported. No test
//! checks a duration.

mod support;

use std::fs;

use serde_json::Value;
use support::{Ran, assert_refused, becalm, run};

fn bench(arguments: &[&str]) -> Ran {
    run(becalm().arg("bench").args(arguments))
}

const QUICK: [&str; 4] = ["--rounds", "6", "--run", "-c :"];

fn json(ran: &Ran) -> Value {
    assert_eq!(ran.code, Some(0), "{ran:?}");
    serde_json::from_str(&ran.stdout).expect("one object")
}

#[test]
fn the_json_holds_every_start_of_every_variant_and_the_control() {
    let ran =
        bench(&[&QUICK[..], &["sh", "--env", "A=1", "--against", "/bin/sh", "--json"]].concat());
    let json = json(&ran);
    assert_eq!(json["schema"], "becalm/bench/1");
    assert_eq!(json["rounds"], 6);
    let variants = json["variants"].as_array().expect("variants");
    let names: Vec<&str> = variants.iter().map(|v| v["name"].as_str().expect("named")).collect();
    assert_eq!(names, ["sh", "/bin/sh", "A set", "sh"]);
    let controls: Vec<bool> =
        variants.iter().map(|variant| variant["control"].as_bool().expect("told")).collect();
    assert_eq!(controls, [false, false, false, true]);
    for variant in variants {
        assert_eq!(variant["wall_ns"].as_array().map(Vec::len), Some(6));
        assert_eq!(variant["args"], serde_json::json!(["-c", ":"]));
    }
    assert_eq!(variants[2]["environment"], serde_json::json!({"A": "1"}));
    assert!(variants[0]["ratio"].is_null());
    let ratio = |field: &str| variants[1]["ratio"][field].as_f64().expect("a number");
    assert!(ratio("low") <= ratio("ratio") && ratio("ratio") <= ratio("high"));
}

#[test]
fn several_variables_are_one_variant_as_lines_of_a_shell() {
    let lines = "export A=1 B='two words'\nunset GONE\n";
    let arguments = [&["bench"], &QUICK[..], &["sh", "--env", lines, "--json"]].concat();
    let ran = run(becalm().env("GONE", "was here").args(arguments));
    let variant = &json(&ran)["variants"][1];
    assert_eq!(variant["name"], "A set, B set, without GONE");
    let changed = serde_json::json!({"A": "1", "B": "two words", "GONE": null});
    assert_eq!(variant["environment"], changed);
    assert_refused(&bench(&["sh", "--env", "export A"]), "not a setting");
    assert_refused(&bench(&["sh", "--env", "becalm: there is no index"]), "not the name");
}

#[test]
fn the_median_is_that_of_the_starts_that_are_told() {
    let json = json(&bench(&[&QUICK[..], &["sh", "--json"]].concat()));
    for variant in json["variants"].as_array().expect("variants") {
        let mut times: Vec<u64> = variant["wall_ns"]
            .as_array()
            .expect("times")
            .iter()
            .filter_map(Value::as_u64)
            .collect();
        times.sort_unstable();
        let median = variant["median_ns"].as_u64().expect("a number");
        assert!(times[2] <= median && median <= times[3], "{variant}");
        assert_eq!(variant["least_ns"].as_u64(), Some(times[0]));
        assert_eq!(variant["most_ns"].as_u64(), Some(times[5]));
    }
}

/// Nobody may be traced in some containers.
fn is_watched(variant: &Value) -> bool {
    !variant["watched"].is_null() || becalm_testing::skipped("no program can be traced here")
}

#[test]
fn each_variant_is_watched_for_its_misses_and_its_relocation() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let path = format!("LD_LIBRARY_PATH={}/a:{0}/b", dir.path().display());
    let looks = "[ -e /nonexistent/becalm ] || [ -e /nonexistent/becalm ] || \
                 [ -e / ] && [ -e / ] && [ -e / ]";
    let run = format!("-c '{looks}'");
    let arguments = ["--rounds", "1", "--run", &run, "/bin/sh", "--env", &path];
    let report = json(&bench(&[&arguments[..], &["--json"]].concat()));
    let variants = &report["variants"];
    if !is_watched(&variants[0]) {
        return;
    }
    let of = |variant: usize, field: &str| variants[variant]["watched"][field].as_u64();
    assert_eq!(of(0, "misses"), Some(0), "{report}");
    assert!(of(1, "misses") >= Some(2), "{report}");
    for variant in [0, 1] {
        assert!(of(variant, "program_misses") >= Some(2), "{report}");
        assert!(of(variant, "program_repeated") >= Some(2), "{report}");
        let relocations = &variants[variant]["watched"]["relocations"];
        let ns = relocations["ns"].as_u64();
        let times = ns > Some(0) && ns < relocations["loader_ns"].as_u64();
        assert!(times || !cfg!(target_arch = "x86_64"), "{report}");
        assert!(relocations["lookups"].as_u64() > Some(10), "{report}");
    }
    assert!(variants[2]["watched"].is_null(), "the control");

    let text = bench(&arguments);
    assert!(text.stdout.contains("misses after entry"), "{text:?}");
    let until = json(&bench(&[&arguments[..], &["--json", "--until", "entry"]].concat()));
    let watched = &until["variants"][1]["watched"];
    assert!(watched["misses"].as_u64() >= Some(2), "{until}");
    assert!(watched["program_misses"].is_null(), "{until}");
    assert!(watched["relocations"]["lookups"].as_u64() > Some(10), "{until}");
}

#[test]
fn a_thread_of_a_constructor_does_not_hold_up_the_measurement() {
    if support::no_compiler() {
        return;
    }
    const LIBRARY: &str = "#include <pthread.h>
        #include <unistd.h>
        static void *waits(void *it) { for (;;) pause(); return it; }
        __attribute__((constructor)) static void made(void) { pthread_t it; pthread_create(&it, 0, waits, 0); }
        int here(void) { return 0; }";
    let dir = tempfile::tempdir().expect("a scratch directory");
    let path = |name: &str| dir.path().join(name).to_str().expect("UTF-8").to_owned();
    fs::write(path("t.c"), LIBRARY).expect("written");
    fs::write(path("m.c"), "int here(void); int main(void) { return here(); }").expect("written");
    support::cc_library(dir.path(), "t.c", "libt.so", &["-pthread"]);
    support::cc(dir.path(), &["m.c", "-o", "m", "-L.", "-lt", "-Wl,-rpath,$ORIGIN"]);
    let ran = json(&bench(&[&path("m"), "--rounds", "3", "--until", "entry", "--json"]));
    assert_eq!(ran["variants"][0]["wall_ns"].as_array().map(Vec::len), Some(3), "{ran}");
}

#[test]
fn a_static_program_has_no_relocation_to_tell_of() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let (source, program) = (dir.path().join("s.c"), dir.path().join("s"));
    fs::write(&source, "int main(void) { return 0; }").expect("written");
    let mut cc = std::process::Command::new("cc");
    let made = cc.arg("-static").arg(&source).arg("-o").arg(&program).status();
    if !made.is_ok_and(|status| status.success()) {
        becalm_testing::skip("no static C library");
        return;
    }
    let program = program.to_str().expect("UTF-8");
    let report = json(&bench(&["--rounds", "1", "--run", "", program, "--json"]));
    if is_watched(&report["variants"][0]) {
        assert!(report["variants"][0]["watched"]["relocations"].is_null(), "{report}");
    }
}

#[test]
fn exports_go_to_their_files_and_the_text_to_stdout() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let at = |name: &str| dir.path().join(name).to_str().expect("UTF-8").to_owned();
    let (csv, md) = (format!("csv:{}", at("a.csv")), format!("md:{}", at("a.md")));
    let ran = bench(&[&QUICK[..], &["sh", "--export", &csv, "--export", &md]].concat());
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    assert!(ran.stdout.contains("6 rounds") && ran.stdout.contains("control"), "{ran:?}");
    let csv = fs::read_to_string(at("a.csv")).expect("written");
    assert_eq!(csv.lines().next(), Some("round,variant,control,wall_ns,cpu_ns"));
    // The program, the same with an index, and the control.
    assert_eq!(csv.lines().count(), 1 + 6 * 3);
    let md = fs::read_to_string(at("a.md")).expect("written");
    let columns = |line: &str| line.matches('|').count();
    let rows: Vec<&str> = md.lines().filter(|line| line.starts_with('|')).collect();
    // The times, and a table of what was watched if that may be.
    assert!(rows.len() == 2 + 3 || rows.len() == 2 + 3 + 2 + 2, "{md}");
    let (times, watched) = rows.split_at(2 + 3);
    for table in [times, watched] {
        assert!(table.iter().all(|row| columns(row) == columns(table[0])), "{md}");
    }
}

#[test]
fn a_program_alone_is_compared_with_an_index_of_its_own() {
    let quick = [&QUICK[..], &["sh"]].concat();
    let ran = bench(&quick);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let first = ran.stdout.lines().next().expect("a line");
    let measured = first.contains("of loader before main") && first.contains("ms in all");
    assert!(measured || first.contains("no loader before main"), "{first}");
    let json = json(&bench(&[&quick[..], &["--json"]].concat()));
    let names: Vec<_> = json["variants"].as_array().expect("variants").iter().collect();
    assert_eq!(names[1]["name"], "with an index", "{json}");
    let environment = &names[1]["environment"];
    assert!(environment["LD_AUDIT"].as_str().is_some_and(|it| it.contains("index.so")), "{json}");
}

#[test]
fn a_program_that_does_not_end_is_measured_to_its_first_idle_moment() {
    let idle = ["sleep", "--run", "3600", "--until", "idle", "--rounds", "1", "--warmup", "1"];
    let ran = bench(&idle);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let first = ran.stdout.lines().next().expect("a line");
    assert!(first.ends_with(" ms to its first idle moment"), "{first}");
    let json = json(&bench(&[&idle[..], &["--json"]].concat()));
    assert_eq!((&json["until"], &json["variants"][0]["args"][0]), (&"idle".into(), &"3600".into()));
    let taken = json["variants"][0]["wall_ns"][0].as_u64().expect("a time");
    assert!(taken < 3_600_000_000_000, "{taken}");
}

#[test]
fn two_forms_do_not_share_stdout() {
    assert_refused(&bench(&["sh", "--json", "--export", "csv"]), "two forms");
}

#[test]
fn what_cannot_be_measured_is_one_line() {
    assert_refused(&bench(&["no-such-program"]), "not found");
    assert_refused(&bench(&["/"]), "a directory");
    assert_refused(&bench(&["sh", "--run", "-c 'exit 3'"]), "exit status: 3");
    assert_refused(&bench(&["sh", "--run", "-c 'kill $$'"]), "signal");
    assert_refused(&bench(&["sh", "--run", "'open"]), "not closed");
    assert_refused(&bench(&["sleep", "--run", "1000", "--timeout", "0.2"]), "did not end");
    assert_refused(&bench(&["sh", "--export", "csv:/nowhere/at/all.csv"]), "/nowhere/at/all.csv");
}

#[test]
fn a_measurement_that_fails_leaves_no_file_and_takes_none_away() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let (new, old) = (dir.path().join("new.csv"), dir.path().join("old.csv"));
    fs::write(&old, "kept").expect("written");
    let export = |path: &std::path::Path| format!("csv:{}", path.display());
    let ran = bench(&["false", "--export", &export(&new), "--export", &export(&old)]);
    assert_refused(&ran, "exit status: 1");
    assert!(!new.exists());
    assert_eq!(fs::read_to_string(&old).expect("still there"), "kept");
}

#[test]
fn a_failing_programs_words_cannot_steer_the_terminal() {
    let ran = bench(&["sh", "--run", r"-c 'printf \\033[31mred >&2; exit 1'"]);
    assert_refused(&ran, "red");
    assert!(!ran.stderr.contains('\x1b'), "{ran:?}");
}

#[test]
fn without_arguments_a_program_is_asked_for_its_version() {
    let json = json(&bench(&["cat", "--rounds", "1", "--json"]));
    assert_eq!(json["variants"][0]["args"], serde_json::json!(["--version"]));
}
