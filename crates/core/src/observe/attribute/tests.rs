//! Joining holds where sequences are equal, and finds its way back where they are not.

use super::*;
use crate::probe::ProbeLog;

fn attempt(path: &str, outcome: Outcome) -> Attempt {
    Attempt { call: Call::Open, path: path.into(), outcome }
}

fn model() -> ProbeLog {
    let mut log = ProbeLog::default();
    for (path, outcome) in [
        ("/a/libx.so", Outcome::Miss),
        ("/b/libx.so", Outcome::WrongClass),
        ("/c/libx.so", Outcome::Hit),
        ("/a/liby.so", Outcome::Hit),
    ] {
        let tried = (SearchSource::Runpath, Call::Open, outcome);
        log.push(0, tried, path.as_bytes(), 2).expect("room");
    }
    log
}

fn aligned(observed: &[Attempt]) -> Vec<Option<usize>> {
    align(observed, &model().iter().collect::<Vec<_>>())
}

#[test]
fn an_attempt_nobody_predicted_does_not_shift_those_after_it() {
    let observed = [
        attempt("/a/libx.so", Outcome::Miss),
        attempt("/new/libx.so", Outcome::Miss),
        attempt("/b/libx.so", Outcome::Hit),
        attempt("/c/libx.so", Outcome::Hit),
        attempt("/a/liby.so", Outcome::Hit),
        attempt("/late.so", Outcome::Hit),
    ];
    let expected = [Some(0), None, Some(1), Some(2), Some(3), None];
    assert_eq!(aligned(&observed), expected);
}

#[test]
fn a_prediction_that_was_not_seen_is_passed_over() {
    let observed = [attempt("/a/libx.so", Outcome::Miss), attempt("/a/liby.so", Outcome::Hit)];
    assert_eq!(aligned(&observed), [Some(0), Some(3)]);
    assert_eq!(aligned(&[]), []);
    assert_eq!(align(&observed, &[]), [None, None]);
}

#[test]
fn the_model_knows_what_was_wrong_with_a_file_that_opened() {
    assert_eq!(outcome_of(Outcome::Hit, Outcome::WrongClass), Outcome::WrongClass);
    assert_eq!(outcome_of(Outcome::Denied, Outcome::Hit), Outcome::Denied);
    assert_eq!(unknown(attempt("/x/liby.so", Outcome::Miss)).needed, "liby.so");
}
