//! Tests that sequences are joined where they are equal, and again after a difference.

use super::*;
use crate::probe::Call;

fn attempt(path: &str, outcome: Outcome) -> Attempt {
    Attempt { call: Call::Open, path: path.into(), outcome }
}

fn model() -> Vec<LoggedProbe> {
    let probes = [
        ("/a/libx.so", Outcome::Miss),
        ("/b/libx.so", Outcome::WrongClass),
        ("/c/libx.so", Outcome::Hit),
        ("/a/liby.so", Outcome::Hit),
    ];
    let (source, call) = (SearchSource::Runpath, Call::Open);
    let logged = |(path, outcome): (&str, _)| LoggedProbe {
        resolution: 0,
        source,
        call,
        outcome,
        path: path.into(),
        dir_len: 2,
    };
    probes.map(logged).to_vec()
}

fn aligned(observed: &[Attempt]) -> Vec<Option<usize>> {
    align(observed, &model())
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
