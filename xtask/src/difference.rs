//! Compares a predicted sequence with an observed one and returns the first difference.
//!
//! No record shows everything that a model predicts. Each comparison first drops the parts that its
//! record lacks; [`becalm_core::record::ld_debug`] lists them.

use becalm_core::probe::{Attempt, Call, Outcome, Probe, SearchSource};
use becalm_core::record::compare::is_loader_cache_file;

/// The number of equal steps that a difference shows, the last ones.
const CONTEXT: usize = 3;

/// Compares predicted probes with those of an `LD_DEBUG` record: only opens, by requester, needed
/// string, path and success. The requester is compared if the record has one. The source is not
/// compared.
#[must_use]
pub fn with_ld_debug(predicted: &[Probe], observed: &[Probe]) -> Option<String> {
    let of_search = |probe: &&Probe| probe.call == Call::Open && !is_loader_cache_file(probe);
    let predicted: Vec<&Probe> = predicted.iter().filter(of_search).collect();
    let observed: Vec<&Probe> = observed.iter().filter(of_search).collect();
    let same = |p: &&Probe, o: &&Probe| {
        (o.needed_by.is_empty() || p.needed_by == o.needed_by)
            // The record has the expanded needed string of a search.
            && (p.needed == o.needed || p.needed.contains(&b'$'))
            // The record lacks the expanded path of a needed string with a slash.
            && (o.source == SearchSource::Direct || p.path == o.path)
            && (p.outcome == Outcome::Hit) == (o.outcome == Outcome::Hit)
    };
    first_difference(&predicted, &observed, same, |p| describe(p), |o| describe(o))
}

/// Compares predicted probes with observed attempts: every open and stat, by call, path and errno.
/// `observed` is the result of [`becalm_core::record::compare::candidates`].
#[must_use]
pub fn with_strace(predicted: &[Probe], observed: &[Attempt]) -> Option<String> {
    let same = |p: &Probe, o: &Attempt| p.attempt() == *o;
    first_difference(predicted, observed, same, describe, describe_attempt)
}

/// Describes the first difference. The index is the one after the parts that the record lacks were dropped.
fn first_difference<P, O>(
    predicted: &[P],
    observed: &[O],
    same: impl Fn(&P, &O) -> bool,
    show_predicted: impl Fn(&P) -> String,
    show_observed: impl Fn(&O) -> String,
) -> Option<String> {
    let agreed = predicted.iter().zip(observed).take_while(|(p, o)| same(p, o)).count();
    if agreed == predicted.len() && agreed == observed.len() {
        return None;
    }
    let before = predicted[agreed.saturating_sub(CONTEXT)..agreed].iter();
    let before: String =
        before.map(|it| format!("    both       {}\n", show_predicted(it))).collect();
    let or_none = |step: Option<String>| step.unwrap_or_else(|| "(nothing more)".to_owned());
    let predicted = or_none(predicted.get(agreed).map(&show_predicted));
    let observed = or_none(observed.get(agreed).map(&show_observed));
    Some(format!(
        "first difference at step {agreed}\n{before}    predicted  {predicted}\n    observed   {observed}"
    ))
}

pub(crate) fn describe(probe: &Probe) -> String {
    let step = describe_attempt(&Attempt { outcome: probe.outcome, ..probe.attempt() });
    format!("{step} ({:?} asks for {:?}, {:?})", probe.needed_by, probe.needed, probe.source)
}

pub(crate) fn describe_attempt(attempt: &Attempt) -> String {
    let call = match attempt.call {
        Call::Open => "open",
        Call::Stat => "stat",
    };
    format!("{call} {:?} {:?}", attempt.path, attempt.outcome)
}

#[cfg(test)]
mod tests;
