//! Joins the observed attempts of the loader with the predicted probes, so that each attempt gets a
//! requester, a needed string and a search source.

use bstr::{BString, ByteSlice};

use super::offenders::{Miss, Offenders};
use crate::closure::Closure;
use crate::cost::{SearchCost, searched_dir};
use crate::path;
use crate::probe::{Attempt, LoggedProbe, Outcome, Probe, SearchSource};
use crate::record::compare::candidates;

/// The loader's observed lookups, attributed.
#[derive(Clone, Debug)]
pub struct Attributed {
    /// The observed probes in order. An outcome that a system call does not show (wrong class, not an
    /// ELF file) is that of the model.
    pub probes: Vec<Probe>,
    /// For each observed probe the index of its predicted probe. For `None` the requester is empty,
    /// the needed string is the file name of the path, and the source is [`SearchSource::Direct`].
    pub predicted: Vec<Option<usize>>,
    /// The counts of the observed probes. The number of objects and the search dirs come from the
    /// closure.
    pub storm: SearchCost,
    /// The observed misses by their causes. The directory of a miss without a prediction is that of its
    /// path.
    pub worst: Offenders,
}

/// Joins the attempts of a loader at a start, in order, with the closure of the program. Without a closure they
/// have no prediction.
#[must_use]
pub fn attribute(mut observed: Vec<Attempt>, closure: Option<&Closure>) -> Attributed {
    if let Some(closure) = closure {
        let cache = closure.facts.as_ref().and_then(|facts| facts.cache_path.as_ref());
        observed = candidates(observed, cache.map(|path| path.as_bstr()), None);
        // The open of a package cache that exists is not a probe.
        let read = &closure.load.package_caches;
        observed.retain(|attempt| attempt.outcome != Outcome::Hit || !read.contains(&attempt.path));
    }
    let model = closure.map_or(&[][..], |closure| &closure.load.probes);
    let predicted = align(&observed, model);
    let both = observed.into_iter().zip(&predicted);
    let probes = both.map(|(attempt, index)| match (closure, index) {
        (Some(closure), Some(index)) => {
            let outcome = outcome_of(attempt.outcome, model[*index].outcome);
            Probe { outcome, ..closure.probe(&model[*index]) }
        }
        _ => unknown(attempt),
    });
    let probes: Vec<Probe> = probes.collect();
    let both = || probes.iter().zip(&predicted);
    let counted = both().map(|(probe, index)| match index {
        Some(index) => LoggedProbe { outcome: probe.outcome, ..model[*index].clone() },
        None => counted_alone(probe),
    });
    let counted: Vec<LoggedProbe> = counted.collect();
    let objects = closure.map_or(0, |closure| closure.load.objects.len());
    let storm = SearchCost::count(objects, counted.iter());
    let failed = both().filter(|(probe, _)| probe.outcome.is_failed_call());
    let worst = Offenders::charge(failed.map(|(probe, index)| Miss {
        directory: match index {
            Some(index) => searched_dir(&model[*index]),
            // A path without a prediction is charged to its own directory.
            None => probe.path.rfind_byte(b'/').map(|end| probe.path[..end].as_bstr()),
        },
        needed: probe.needed.as_ref(),
        object: probe.needed_by.as_ref(),
        call: probe.call,
    }));
    Attributed { probes, predicted, storm, worst }
}

/// Only a predicted probe has a search dir, so that others do not count as hwcaps misses.
fn counted_alone(probe: &Probe) -> LoggedProbe {
    let Probe { source, call, outcome, .. } = *probe;
    LoggedProbe { resolution: 0, source, call, outcome, path: probe.path.clone(), dir_len: 0 }
}

/// The number of steps in which the sequences must meet again after a difference.
const WINDOW: usize = 512;

/// Returns the index of the predicted probe for each attempt. After a difference, the sequences
/// continue at the nearest position where they are equal again.
fn align(observed: &[Attempt], model: &[LoggedProbe]) -> Vec<Option<usize>> {
    let mut indices = Vec::with_capacity(observed.len());
    let mut at = 0;
    while let [attempt, ..] = &observed[indices.len()..] {
        let (left, rest) = (&observed[indices.len()..], model.get(at..).unwrap_or_default());
        // The attempts to skip until the next prediction is made.
        let extra = rest
            .first()
            .and_then(|probe| left.iter().take(WINDOW).position(|attempt| is_same(attempt, probe)));
        // The predictions to skip until this attempt is predicted.
        let most = extra.unwrap_or(WINDOW).max(1);
        match rest.iter().take(most).position(|probe| is_same(attempt, probe)) {
            Some(skipped) => {
                at += skipped + 1;
                indices.push(Some(at - 1));
            }
            None => indices.extend(std::iter::repeat_n(None, extra.unwrap_or(1))),
        }
    }
    indices
}

/// Returns true for the same call on the same path. The outcome is not compared, because it does not
/// depend on the requester.
fn is_same(attempt: &Attempt, probe: &LoggedProbe) -> bool {
    attempt.call == probe.call && attempt.path == probe.path
}

/// Returns the observed outcome, or that of the model for a file that opened.
fn outcome_of(observed: Outcome, predicted: Outcome) -> Outcome {
    let opened = observed == Outcome::Hit && !predicted.is_failed_call();
    if opened { predicted } else { observed }
}

fn unknown(attempt: Attempt) -> Probe {
    let name = path::name(&attempt.path).into();
    Probe {
        needed_by: BString::default(),
        needed: name,
        source: SearchSource::Direct,
        path: attempt.path,
        call: attempt.call,
        outcome: attempt.outcome,
    }
}

#[cfg(test)]
mod tests;
