//! Compares a predicted sequence with an observed one and returns the first difference.
//!
//! No record shows everything that a model predicts. Each comparison first drops the parts that its
//! record lacks; [`becalm_core::record::ld_debug`] lists them.

use std::fmt;

use becalm_core::probe::{Attempt, Call, Outcome, Probe, SearchSource};
use becalm_core::record::compare::is_loader_cache_file;
use bstr::{BStr, ByteSlice};

/// The first difference between prediction and observation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The index in the two sequences, after the parts that the record lacks were dropped.
    pub index: usize,
    /// The predicted step. `None` at the end of the prediction.
    pub predicted: Option<String>,
    /// The observed step. `None` at the end of the observation.
    pub observed: Option<String>,
    /// The last equal steps, oldest first.
    pub before: Vec<String>,
}

/// The number of equal steps in a [`Difference`].
const CONTEXT: usize = 3;

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "first difference at step {}", self.index)?;
        for step in &self.before {
            writeln!(f, "    both       {step}")?;
        }
        writeln!(f, "    predicted  {}", self.predicted.as_deref().unwrap_or("(nothing more)"))?;
        write!(f, "    observed   {}", self.observed.as_deref().unwrap_or("(nothing more)"))
    }
}

/// Compares predicted probes with those of an `LD_DEBUG` record: only opens, by requester, needed
/// string, path and success. The requester is compared if the record has one. The source is not
/// compared.
#[must_use]
pub fn with_ld_debug(predicted: &[Probe], observed: &[Probe]) -> Option<Difference> {
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
pub fn with_strace(predicted: &[Probe], observed: &[Attempt]) -> Option<Difference> {
    let show = |o: &Attempt| line(o.call, o.path.as_bstr(), o.outcome);
    first_difference(predicted, observed, is_call, describe, show)
}

/// Returns true if an attempt shows the call of a probe.
pub(crate) fn is_call(probe: &Probe, seen: &Attempt) -> bool {
    let outcome = if probe.outcome.is_failed_call() { probe.outcome } else { Outcome::Hit };
    probe.call == seen.call && probe.path == seen.path && outcome == seen.outcome
}

fn first_difference<P, O>(
    predicted: &[P],
    observed: &[O],
    same: impl Fn(&P, &O) -> bool,
    show_predicted: impl Fn(&P) -> String,
    show_observed: impl Fn(&O) -> String,
) -> Option<Difference> {
    let agreed = predicted.iter().zip(observed).take_while(|(p, o)| same(p, o)).count();
    if agreed == predicted.len() && agreed == observed.len() {
        return None;
    }
    Some(Difference {
        index: agreed,
        predicted: predicted.get(agreed).map(&show_predicted),
        observed: observed.get(agreed).map(&show_observed),
        before: predicted[agreed.saturating_sub(CONTEXT)..agreed]
            .iter()
            .map(&show_predicted)
            .collect(),
    })
}

fn describe(probe: &Probe) -> String {
    let step = line(probe.call, probe.path.as_bstr(), probe.outcome);
    format!("{step} ({:?} asks for {:?}, {:?})", probe.needed_by, probe.needed, probe.source)
}

fn line(call: Call, path: &BStr, outcome: Outcome) -> String {
    let call = match call {
        Call::Open => "open",
        Call::Stat => "stat",
    };
    format!("{call} {path:?} {outcome:?}")
}

#[cfg(test)]
mod tests;
