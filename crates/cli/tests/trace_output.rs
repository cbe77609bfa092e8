//! Output of `becalm trace`: the JSON contract, images, classes, and prediction beside observation.

mod support;

use std::fs;
use std::process::Command;

use becalm_testing::skip;
use serde_json::Value;
use support::{Fixture, Ran, becalm, no_compiler, run};

/// A trace with the report in a file.
fn traced(set_up: impl FnOnce(&mut Command), arguments: &[&str]) -> (Ran, Value) {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let report = dir.path().join("report");
    let mut command = becalm();
    command.arg("trace").arg("--json").arg("-o").arg(&report);
    set_up(&mut command);
    let ran = run(command.args(arguments));
    let text = fs::read(&report).expect("a report");
    assert_eq!(text.iter().filter(|byte| **byte == b'\n').count(), 1, "one line");
    (ran, serde_json::from_slice(&text).expect("JSON"))
}

fn checked(library_path: &str, program: &str) -> Value {
    let arguments = ["check", "--json", "--probes", "--library-path", library_path, program];
    let ran = run(becalm().args(arguments));
    serde_json::from_str(&ran.stdout).expect("JSON")
}

fn last(report: &Value) -> &Value {
    report["images"].as_array().and_then(|images| images.last()).expect("an image")
}

/// Misses of a class.
fn misses(image: &Value, class: &str) -> u64 {
    let classes = image["classes"].as_array().expect("classes");
    let tally = classes.iter().find(|tally| tally["class"] == class);
    let kinds = ["opens", "stats", "others"];
    tally.map_or(0, |tally| kinds.iter().filter_map(|k| tally["missed"][k].as_u64()).sum())
}

#[test]
fn relocation_is_timed_in_starts_of_its_own() {
    let (ran, report) = traced(|_| {}, &["--relocations", "--", "/bin/sh", "-c", "echo once"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "once\n"), "{ran:?}");
    if report["opens_alone"] == true {
        skip("no program can be traced here");
        return;
    }
    let relocations = &last(&report)["relocations"];
    let ns = relocations["ns"].as_u64();
    let times = ns > Some(0) && ns < relocations["loader_ns"].as_u64();
    assert!(times || !cfg!(target_arch = "x86_64"), "{relocations}");
    assert!(relocations["lookups"].as_u64() > Some(10), "{relocations}");
    assert_eq!(last(&report)["prediction"]["equal"], true);
    let (_, plain) = traced(|_| {}, &["--", "/bin/sh", "-c", ":"]);
    assert!(last(&plain)["relocations"].is_null());
    let debug = |command: &mut Command| {
        command.env("LD_DEBUG_OUTPUT", "/dev/null");
    };
    let (_, told) = traced(debug, &["--relocations", "--", "/bin/sh", "-c", ":"]);
    assert!(last(&told)["relocations"].is_null(), "the loader has something else to tell");
}

#[test]
fn storm_and_probes_are_those_of_check() {
    let variable = |command: &mut Command| {
        command.env("LD_LIBRARY_PATH", "/nonexistent-becalm/a:/nonexistent-becalm/b");
    };
    let (ran, report) = traced(variable, &["--", "/bin/sh", "-c", "exit 4"]);
    assert_eq!(ran.code, Some(4));
    assert_eq!(report["schema"], "becalm/trace/1");
    assert_eq!(report["exit"]["code"], 4);
    let image = last(&report);
    let predicted =
        &checked("/nonexistent-becalm/a:/nonexistent-becalm/b", "/bin/sh")["programs"][0];
    assert_eq!(image["path"], "/bin/sh");
    assert_eq!(image["storm"], predicted["storm"]);
    assert_eq!(image["probes"], predicted["probes"]);
    assert!(image["storm"]["missed_opens"].as_u64() > Some(1));
    assert_eq!(image["prediction"]["equal"], true);
    for row in image["syscalls"].as_array().expect("rows") {
        for field in ["count", "errors", "total_ns", "max_ns"] {
            assert!(row[field].is_u64(), "{row}");
        }
    }
}

#[test]
fn the_object_is_the_last_line_of_stdout() {
    let ran = run(becalm().args(["trace", "--json", "--", "echo", "first"]));
    let (first, rest) = ran.stdout.split_once('\n').expect("two lines");
    assert_eq!((first, ran.stderr.as_str()), ("first", ""));
    let report: Value = serde_json::from_str(rest).expect("JSON");
    assert_eq!(report["command"], serde_json::json!(["echo", "first"]));
}

#[test]
fn an_object_behind_an_unfinished_line_has_its_own() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let path = dir.path().join("out");
    let file = fs::File::create(&path).expect("made");
    let mut command = becalm();
    command.args(["trace", "--json", "--", "printf", "unfinished"]).stdout(file);
    assert!(command.status().expect("runs").success());
    let text = fs::read_to_string(&path).expect("read");
    let (first, rest) = text.split_once('\n').expect("two lines");
    assert_eq!(first, "unfinished");
    assert!(serde_json::from_str::<Value>(rest).is_ok(), "{rest}");
}

#[test]
fn each_program_of_a_wrapper_is_an_image_and_the_last_is_the_program() {
    let wrapper = "exec -a other /bin/sh -c 'exec /usr/bin/env true'";
    let (_, report) = traced(|_| (), &["--", "/bin/bash", "-c", wrapper]);
    let images = report["images"].as_array().expect("images");
    let paths: Vec<&str> = images.iter().filter_map(|image| image["path"].as_str()).collect();
    assert_eq!(&paths[..3], ["/bin/bash", "/bin/sh", "/usr/bin/env"]);
    assert!(paths.last().is_some_and(|path| path.ends_with("/true")), "{paths:?}");
}

#[test]
fn with_follow_children_are_counted_and_the_program_stays_last() {
    let command = ["--", "/bin/sh", "-c", "/usr/bin/env true; exit 0"];
    let (_, alone) = traced(|_| (), &command);
    assert_eq!(alone["images"].as_array().map(Vec::len), Some(1));
    let (_, all) = traced(|_| (), &[&["--follow"], &command[..]].concat());
    assert!(all["images"].as_array().is_some_and(|images| images.len() > 1), "{all}");
    assert_eq!(last(&all)["path"], "/bin/sh");
}

#[test]
fn with_syscalls_all_calls_are_counted() {
    let names = |report: &Value| -> Vec<String> {
        let rows = last(report)["syscalls"].as_array().expect("rows").clone();
        rows.iter().filter_map(|row| row["name"].as_str().map(str::to_owned)).collect()
    };
    let (_, some) = traced(|_| (), &["--", "/bin/true"]);
    assert!(!names(&some).iter().any(|name| name == "mmap"));
    let (_, all) = traced(|_| (), &["--syscalls", "--", "/bin/true"]);
    for call in ["mmap", "close", "openat"] {
        assert!(names(&all).iter().any(|name| name == call), "no {call}: {:?}", names(&all));
    }
}

#[test]
fn python_imports_along_forty_directories_are_classed_as_such() {
    let Some(python) = system("/usr/bin/python3") else { return };
    let path: Vec<String> = (0..40).map(|n| format!("/nonexistent-becalm/x/py{n}")).collect();
    let variable = |command: &mut Command| {
        command.env("PYTHONPATH", path.join(":"));
    };
    let (ran, report) = traced(variable, &["--", python, "-c", "import json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let image = last(&report);
    assert!(misses(image, "python") >= 40, "{}", image["classes"]);
    assert_eq!(image["classes"][0]["class"], "python", "the worst: {}", image["classes"]);
    // This includes the directories above them, which the importer of archives reads.
    assert!(misses(image, "other") < 20, "{}", image["classes"]);
}

#[test]
fn perl_modules_along_twenty_directories_are_classed_as_such() {
    let Some(perl) = system("/usr/bin/perl") else { return };
    let dirs: Vec<String> = (0..20).map(|n| format!("-I/nonexistent-becalm/pl{n}")).collect();
    let mut arguments = vec!["--", perl];
    arguments.extend(dirs.iter().map(String::as_str));
    arguments.extend(["-e", "use strict; use POSIX;"]);
    let (ran, report) = traced(|_| (), &arguments);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let image = last(&report);
    assert!(misses(image, "perl") >= 80, "{}", image["classes"]);
    assert!(misses(image, "other") < 20, "{}", image["classes"]);
}

fn system(program: &'static str) -> Option<&'static str> {
    if std::path::Path::new(program).exists() {
        return Some(program);
    }
    skip(&format!("no {program}"));
    None
}

#[test]
fn probes_and_log_have_the_lines_of_check() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let (log, report) = (dir.path().join("log"), dir.path().join("report"));
    let mut command = becalm();
    command.env("LD_LIBRARY_PATH", "/nonexistent-becalm").args(["trace", "--probes", "--log"]);
    command.arg(&log).arg("-o").arg(&report);
    assert_eq!(run(command.args(["--", "/bin/true"])).code, Some(0));
    let arguments = ["check", "--probes", "--library-path", "/nonexistent-becalm", "/bin/true"];
    let predicted = run(becalm().args(arguments)).stdout;
    assert!(predicted.lines().count() > 1);
    assert_eq!(fs::read_to_string(&log).expect("a log"), predicted);
    assert_eq!(fs::read_to_string(&report).expect("a report"), predicted);
}

#[test]
fn a_record_of_the_same_start_is_as_predicted_and_of_another_is_not() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let record = dir.path().join("record");
    let mut command = becalm();
    command.args(["trace", "--json", "-o"]).arg(&record);
    assert_eq!(run(command.args(["--", "/bin/true"])).code, Some(0));
    let against = |more: &[&str]| {
        run(becalm().args(["check", "--against"]).arg(&record).args(more).arg("/bin/true"))
    };
    let same = against(&[]);
    assert_eq!(same.code, Some(0), "{same:?}");
    assert!(same.stdout.contains("the same in sequence"), "{same:?}");
    let other = against(&["--library-path", "/nonexistent-becalm"]);
    assert_eq!(other.code, Some(1), "{other:?}");
    assert!(other.stdout.contains("not seen"), "{other:?}");
    let json: Value = serde_json::from_str(&against(&["--json"]).stdout).expect("JSON");
    assert_eq!(json["programs"][0]["against"]["equal"], true);
    let none = run(becalm().args(["check", "--against"]).arg(&record).arg("/bin/ls"));
    assert_eq!(none.code, Some(2));
    assert!(none.stderr.contains("no such program in this record"), "{none:?}");
}

#[test]
fn a_record_that_is_none_is_a_line() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    for text in ["", "{", "[]", r#"{"schema":"becalm/check/1","images":[]}"#] {
        let record = dir.path().join("record");
        fs::write(&record, text).expect("written");
        let ran = run(becalm().args(["check", "--against"]).arg(&record).arg("/bin/true"));
        assert_eq!((ran.code, ran.stderr.lines().count()), (Some(2), 1), "{text:?}: {ran:?}");
    }
}

#[test]
fn prediction_and_observation_are_shown_side_by_side() {
    let ran = run(becalm().args(["trace", "--predict", "--", "/bin/true"]));
    assert!(ran.stderr.contains("predicted    observed"), "{}", ran.stderr);
}

#[test]
fn a_fixture_that_starts_is_observed_as_it_is_predicted() {
    if no_compiler() {
        return;
    }
    let fixture = Fixture::new();
    let (ran, report) = traced(|_| (), &["--", &fixture.app()]);
    assert_eq!(ran.code, Some(127), "libmissing.so is not there: {ran:?}");
    let image = last(&report);
    assert_eq!(image["prediction"]["equal"], true, "{}", image["prediction"]);
}

#[test]
fn the_files_that_a_run_used_can_be_listed() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let at = |name: &str| dir.path().join(name).to_str().expect("UTF-8").to_owned();
    fs::write(at("data"), "content\n").expect("a file");
    std::os::unix::fs::symlink("data", at("link")).expect("a link");
    let script = format!("#!/bin/sh\n[ -e {} ]; exec cat {}\n", at("nosuch"), at("link"));
    fs::write(at("script"), script).expect("a script");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(at("script"), executable).expect("a script");
    let (ran, report) = traced(|_| {}, &["--files", "--", &at("script")]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "content\n"), "{ran:?}");
    if report["opens_alone"] == true {
        skip("no program can be traced here");
        return;
    }
    let kind_of = |path: &str| {
        let files = last(&report)["files"].as_array().expect("files");
        files.iter().find(|file| file["path"] == path).map(|file| file["kind"].clone())
    };
    assert_eq!(kind_of(&at("data")), Some("opened".into()));
    assert_eq!(kind_of(&at("link")), Some("link".into()));
    let (_, plain) = traced(|_| {}, &["--", "/bin/sh", "-c", ":"]);
    assert!(last(&plain)["files"].is_null());

    let listed = run(becalm().args(["trace", "--files", "-o", &at("list"), "--", &at("script")]));
    assert_eq!(listed.code, Some(0), "{listed:?}");
    let list = fs::read_to_string(at("list")).expect("a list");
    let has = |ending: &str| list.lines().filter(|line| line.ends_with(ending)).count();
    assert_eq!(["/script", "/data", "/link", "/nosuch"].map(has), [1, 1, 1, 0], "{list}");
    // Shell and cat have one loader and one libc, each listed once.
    assert_eq!(has("/libc.so.6"), 1, "{list}");
    assert!(list.lines().all(|line| std::path::Path::new(line).exists()), "{list}");
}
