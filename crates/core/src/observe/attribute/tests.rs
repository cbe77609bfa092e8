//! Joining holds where sequences are equal, and finds its way back where they are not.

use super::*;

fn probe(path: &str, needed: &str, outcome: Outcome) -> Probe {
    Probe {
        needed_by: "/bin/app".into(),
        needed: needed.into(),
        source: SearchSource::Runpath,
        path: path.into(),
        call: Call::Open,
        outcome,
    }
}

fn attempt(path: &str, outcome: Outcome) -> Attempt {
    Attempt { call: Call::Open, path: path.into(), outcome }
}

fn model() -> Vec<Probe> {
    vec![
        probe("/a/libx.so", "libx.so", Outcome::Miss),
        probe("/b/libx.so", "libx.so", Outcome::WrongClass),
        probe("/c/libx.so", "libx.so", Outcome::Hit),
        probe("/a/liby.so", "liby.so", Outcome::Hit),
    ]
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
    assert_eq!(align(&observed, &model()), expected);
}

#[test]
fn a_prediction_that_was_not_seen_is_passed_over() {
    let observed = [attempt("/a/libx.so", Outcome::Miss), attempt("/a/liby.so", Outcome::Hit)];
    assert_eq!(align(&observed, &model()), [Some(0), Some(3)]);
    assert_eq!(align(&[], &model()), []);
    assert_eq!(align(&observed, &[]), [None, None]);
}

#[test]
fn the_model_knows_what_was_wrong_with_a_file_that_opened() {
    let seen = known(&attempt("/b/libx.so", Outcome::Hit), &model()[1]);
    assert_eq!(seen.outcome, Outcome::WrongClass);
    let seen = known(&attempt("/c/libx.so", Outcome::Denied), &model()[2]);
    assert_eq!(seen.outcome, Outcome::Denied);
    assert_eq!(unknown(&attempt("/x/liby.so", Outcome::Miss)).needed, "liby.so");
}
