//! Tests that the comparison returns exactly the first difference.

use super::*;

fn probe(path: &str, call: Call, outcome: Outcome) -> Probe {
    Probe {
        needed_by: "/p".into(),
        needed: "l.so".into(),
        source: SearchSource::Runpath,
        path: path.into(),
        call,
        outcome,
    }
}

fn attempt(path: &str, call: Call, outcome: Outcome) -> Attempt {
    Attempt { call, path: path.into(), outcome }
}

#[test]
fn equal_sequences_have_no_difference() {
    let predicted = [
        probe("/a/l.so", Call::Open, Outcome::Miss),
        probe("/a/", Call::Stat, Outcome::Hit),
        probe("/b/l.so", Call::Open, Outcome::WrongClass),
        probe("/c/l.so", Call::Open, Outcome::Hit),
    ];
    let opens =
        [predicted[0].clone(), probe("/b/l.so", Call::Open, Outcome::Miss), predicted[3].clone()];
    assert_eq!(with_ld_debug(&predicted, &opens), None);
    let attempts = [
        attempt("/a/l.so", Call::Open, Outcome::Miss),
        attempt("/a/", Call::Stat, Outcome::Hit),
        attempt("/b/l.so", Call::Open, Outcome::Hit),
        attempt("/c/l.so", Call::Open, Outcome::Hit),
    ];
    assert_eq!(with_strace(&predicted, &attempts), None);
}

#[test]
fn the_first_difference_has_the_steps_before_it() {
    let predicted =
        [probe("/a/l.so", Call::Open, Outcome::Miss), probe("/b/l.so", Call::Open, Outcome::Hit)];
    let mut observed = predicted.to_vec();
    observed[1].outcome = Outcome::Miss;
    let text = with_ld_debug(&predicted, &observed).unwrap();
    assert!(text.starts_with("first difference at step 1\n"), "{text}");
    assert_eq!(text.matches("    both  ").count(), 1, "{text}");
    assert!(text.contains("predicted  open \"/b/l.so\" Hit"), "{text}");
    assert!(text.contains("observed   open \"/b/l.so\" Miss"), "{text}");
}

#[test]
fn a_longer_sequence_is_a_difference() {
    let one = [probe("/a/l.so", Call::Open, Outcome::Miss)];
    let ends =
        |text: Option<String>, what: &str| text.unwrap().contains(&format!("{what}(nothing more)"));
    assert!(ends(with_ld_debug(&one, &[]), "observed   "));
    assert!(ends(with_ld_debug(&[], &one), "predicted  "));
    assert!(with_strace(&one, &[]).is_some());
    assert!(with_strace(&[], &[attempt("/a", Call::Stat, Outcome::Miss)]).is_some());
}

#[test]
fn another_errno_is_a_difference_to_strace() {
    let predicted = [probe("/a/l.so", Call::Open, Outcome::Denied)];
    assert!(with_strace(&predicted, &[attempt("/a/l.so", Call::Open, Outcome::Miss)]).is_some());
}
