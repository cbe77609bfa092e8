//! Tests the structure of a measurement and the errors of commands that cannot be measured. No test
//! compares durations.

use std::ffi::OsString;

use super::*;
use crate::trace::TraceError;

fn shell(script: &str) -> Variant {
    let args = ["-c", script].map(OsString::from);
    Variant { name: script.to_owned(), command: Command::new("sh", args), enter: None }
}

fn quick() -> Options {
    Options { rounds: Rounds::Exactly(3), ..Options::default() }
}

fn measured(variants: &[Variant], options: &Options) -> Result<Measured, BenchError> {
    measure(variants, options, &mut |_, _| ())
}

#[test]
fn every_round_runs_each_variant_and_the_first_one_twice() {
    let mut seen = Vec::new();
    let measured = measure(&[shell(":"), shell("true")], &quick(), &mut |done, of| {
        seen.push((done, of));
    })
    .expect("measured");
    let names: Vec<(&str, bool)> =
        measured.variants.iter().map(|v| (v.name.as_str(), v.control)).collect();
    assert_eq!(names, [(":", false), ("true", false), (":", true)]);
    assert!(measured.variants.iter().all(|variant| variant.runs.len() == 3));
    assert!(measured.variants[0].ratio.is_none());
    assert!(measured.variants[1..].iter().all(|variant| variant.ratio.is_some()));
    assert_eq!(seen, (1..=9).map(|done| (done, 9)).collect::<Vec<_>>());
}

#[test]
fn a_failing_command_is_an_error_with_its_last_line() {
    let error = measured(&[shell(":"), shell("echo no such thing >&2; exit 3")], &quick())
        .expect_err("it fails");
    let text = error.to_string();
    assert!(text.contains("exit status: 3") && text.contains("no such thing"), "{text}");
    let fine = Options { accept_failure: true, ..quick() };
    assert!(measured(&[shell("exit 3")], &fine).is_ok());
}

#[test]
fn an_endless_command_and_its_children_are_killed() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let file = dir.path().join("pid");
    let script = format!("sleep 1000 & echo $! > '{}'; wait", file.display());
    let options = Options { timeout: Duration::from_millis(500), ..quick() };
    let error = measured(&[shell(&script)], &options).expect_err("it never ends");
    assert!(matches!(error, BenchError::Trace(TraceError::TooLong { .. })), "{error}");
    let child = std::fs::read_to_string(&file).expect("written in time");
    // The process has ended, or is a zombie that its new parent has not reaped. A signal needs time
    // to arrive.
    let is_gone = || {
        let state = std::fs::read_to_string(format!("/proc/{}/stat", child.trim()));
        state.map_or(true, |state| state.contains(") Z "))
    };
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is_gone() {
        assert!(Instant::now() < deadline, "{child} still runs");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_missing_command_is_an_error() {
    let gone = Command::new("no-such-program-anywhere", []);
    let variant = Variant { name: "gone".to_owned(), command: gone, enter: None };
    let error = measured(&[variant], &quick()).expect_err("not there");
    assert!(error.to_string().contains("not found"), "{error}");
    assert!(matches!(measured(&[], &quick()), Err(BenchError::Nothing)));
}

#[test]
fn the_entry_point_is_reached_without_running_the_program() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let file = dir.path().join("ran");
    let script = format!("echo > '{}'", file.display());
    let options = Options { until: Until::Entry, ..quick() };
    match measured(&[shell(&script)], &options) {
        Ok(measured) => {
            assert!(measured.variants[0].runs.iter().all(|run| run.wall_ns > 0));
            assert!(!file.exists(), "the program was run");
        }
        Err(BenchError::Trace(error)) => {
            becalm_testing::skip(&error.to_string());
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn the_environment_of_a_variant_is_its_own() {
    let mut with = shell("test \"$FLAVOUR\" = plain");
    with.command.env = Some(vec![("FLAVOUR".into(), "plain".into())]);
    assert!(measured(&[with], &quick()).is_ok());
}

#[test]
fn a_time_budget_gives_at_least_ten_rounds_and_at_most_the_maximum() {
    let second = Duration::from_secs(1);
    assert_eq!(expected(second, second * 60), 10);
    assert_eq!(expected(second, second / 50), 50);
    assert_eq!(expected(second, Duration::ZERO), 2000);
}
