//! Tests that sequences are joined where they are equal, and again after a difference.

use super::*;
use crate::probe::{Call, ProbeLog};

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
fn an_unpredicted_attempt_does_not_shift_those_after_it() {
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
fn an_unobserved_prediction_is_skipped() {
    let observed = [attempt("/a/libx.so", Outcome::Miss), attempt("/a/liby.so", Outcome::Hit)];
    assert_eq!(aligned(&observed), [Some(0), Some(3)]);
    assert_eq!(aligned(&[]), []);
    assert_eq!(align(&observed, &[]), [None, None]);
}

#[test]
fn the_outcome_of_a_file_that_opened_is_that_of_the_model() {
    assert_eq!(outcome_of(Outcome::Hit, Outcome::WrongClass), Outcome::WrongClass);
    assert_eq!(outcome_of(Outcome::Denied, Outcome::Hit), Outcome::Denied);
    assert_eq!(unknown(attempt("/x/liby.so", Outcome::Miss)).needed, "liby.so");
}
