//! Prediction and observation side by side: how far the two agree, and every difference.
//! `becalm trace` has both from one run, `becalm check --against` reads the observation from a
//! record.

use becalm_core::closure::Closure;
use becalm_core::cost::SearchCost;
use becalm_core::observe::Attributed;
use becalm_core::probe::{Call, LoggedProbe, Outcome, Probe, SearchSource};
use becalm_core::record::compare::is_loader_cache_file;
use serde::{Deserialize, Serialize};

/// The comparison, step by step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Beside {
    /// True if there are no differences.
    pub equal: bool,
    /// Counts of the prediction.
    pub predicted: SearchCost,
    /// Counts of the observation.
    pub observed: SearchCost,
    /// The differences, in order.
    pub differences: Vec<Differing>,
    /// Predicted probes that were not made because the start ended before them.
    pub not_reached: usize,
}

/// One difference between prediction and observation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Differing {
    /// The kind of the difference.
    pub how: How,
    /// The number of observed probes before it.
    pub at: usize,
    /// The probe, with the observed outcome if it was observed.
    pub probe: Probe,
    /// The predicted outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_outcome: Option<Outcome>,
}

/// The kinds of differences between prediction and observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// Predicted, but not observed.
    Unobserved,
    /// Observed, but not predicted.
    Unpredicted,
    /// Both, with different outcomes.
    Outcome,
}

/// The extent of an observation.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// False if the start ended before the entry point: probes predicted after the last observed
    /// one are then no differences.
    pub reached_entry: bool,
    /// True if it has opens only (`LD_DEBUG=libs`).
    pub opens_alone: bool,
}

impl Beside {
    /// Compares the two.
    #[must_use]
    pub fn of(attributed: &Attributed, closure: &Closure, scope: Scope) -> Self {
        let model = &closure.load.probes;
        let unseen = |at: usize, probe: &LoggedProbe| {
            Differing::new(How::Unobserved, at, closure.probe(probe), None)
        };
        let mut differences = Vec::new();
        let mut next = 0;
        for (at, (seen, index)) in attributed.probes.iter().zip(&attributed.predicted).enumerate() {
            let Some(index) = *index else {
                differences.push(Differing::new(How::Unpredicted, at, seen.clone(), None));
                continue;
            };
            for passed in model.get(next..index).unwrap_or_default() {
                differences.push(unseen(at, passed));
            }
            let predicted = model[index].outcome;
            if !agree(predicted, seen.outcome) {
                differences.push(Differing::new(How::Outcome, at, seen.clone(), Some(predicted)));
            }
            next = index + 1;
        }
        let rest = model.get(next..).unwrap_or_default();
        let end = attributed.probes.len();
        if scope.reached_entry {
            differences.extend(rest.iter().map(|probe| unseen(end, probe)));
        }
        if scope.opens_alone {
            differences.retain(|d| d.how != How::Unobserved || is_told_by_ld_debug(&d.probe));
        }
        Beside {
            equal: differences.is_empty(),
            predicted: SearchCost::of(&closure.load),
            observed: attributed.storm,
            differences,
            not_reached: if scope.reached_entry { 0 } else { rest.len() },
        }
    }
}

impl Differing {
    fn new(how: How, at: usize, probe: Probe, predicted_outcome: Option<Outcome>) -> Self {
        Differing { how, at, probe, predicted_outcome }
    }
}

/// True if a call can have the observed outcome: the call that opened a file does not show whether
/// the loader accepted the file.
fn agree(predicted: Outcome, observed: Outcome) -> bool {
    predicted == observed || !predicted.is_failed_call() && !observed.is_failed_call()
}

/// `LD_DEBUG` shows neither the stats nor the open of the loader cache.
fn is_told_by_ld_debug(probe: &Probe) -> bool {
    probe.call == Call::Open && probe.source != SearchSource::Direct && !is_loader_cache_file(probe)
}
