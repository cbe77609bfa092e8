//! Compares a predicted sequence with an observed one and returns the first difference.
//!
//! No record shows everything that a model predicts. Each comparison first drops the parts that its
//! record lacks; [`crate::record::ld_debug`] lists them.

use std::fmt;

use bstr::{BStr, BString, ByteSlice};

use crate::probe::{Call, Outcome, Probe, SearchSource};
use crate::record::strace::Attempt;

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
/// `observed` is the result of [`candidates`].
#[must_use]
pub fn with_strace(predicted: &[Probe], observed: &[Attempt]) -> Option<Difference> {
    let same = |p: &Probe, o: &Attempt| {
        let outcome = if p.outcome.is_failed_call() { p.outcome } else { Outcome::Hit };
        p.call == o.call && p.path == o.path && outcome == o.outcome
    };
    let show = |o: &Attempt| line(o.call, o.path.as_bstr(), o.outcome);
    first_difference(predicted, observed, same, describe, show)
}

/// Returns the attempts that are probes. The files that a loader reads for itself are left out (the
/// loader cache if it opens, the preload list, `/proc`, `/sys`), and so is the first attempt on `own`,
/// the object on the loader's command line. Since glibc 2.44 the loader reads tunables from its cache
/// (`_dl_load_cache_tunables`), which costs the first `stat` of the cache.
#[must_use]
pub fn candidates(
    attempts: Vec<Attempt>,
    cache: Option<&BStr>,
    own: Option<&BStr>,
) -> Vec<Attempt> {
    let mut own = own;
    let mut is_for_tunables = true;
    attempts
        .into_iter()
        .filter(|attempt| {
            let path = attempt.path.as_bstr();
            let opened = attempt.call == Call::Open && attempt.outcome == Outcome::Hit;
            if opened && own == Some(path) {
                own = None;
                return false;
            }
            if attempt.call == Call::Stat && Some(path) == cache && is_for_tunables {
                is_for_tunables = false;
                return false;
            }
            // A missing loader cache is a probe, a successful open of it is not.
            let loaders_own = opened && Some(path) == cache
                || path == "/etc/ld.so.preload"
                || path.starts_with(b"/proc/")
                || path.starts_with(b"/sys/");
            !loaders_own
        })
        .collect()
}

/// Returns true for the probe of a missing loader cache itself, which `LD_DEBUG` does not print.
#[must_use]
pub fn is_loader_cache_file(probe: &Probe) -> bool {
    matches!(probe.source, SearchSource::LoaderCache | SearchSource::PackageCache)
        && probe.path.ends_with(b"/ld.so.cache")
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

/// Parses the needed strings that a loader's list (`LD_TRACE_LOADED_OBJECTS`, `--list`) reports as not
/// found.
#[must_use]
pub fn not_found(list: &[u8]) -> Vec<BString> {
    let name =
        |line: &[u8]| line.trim_ascii_start().strip_suffix(b" => not found").map(BString::from);
    list.split(|byte| *byte == b'\n').filter_map(name).collect()
}

/// Parses the paths of a loader's list (`LD_TRACE_LOADED_OBJECTS`), in load order: the libraries that
/// it found and the loader itself.
#[must_use]
pub fn listed(list: &[u8]) -> Vec<BString> {
    let path = |line: &[u8]| {
        let (line, _) = line.trim_ascii().rsplit_once_str(b" (0x")?;
        let path = line.split_once_str(b" => ").map_or(line, |(_, path)| path);
        path.contains(&b'/').then(|| BString::from(path))
    };
    list.split(|byte| *byte == b'\n').filter_map(path).collect()
}

/// Parses the names of the preloads and audit modules that a loader could not load, from its warnings
/// on standard error (glibc `elf/rtld.c` `do_preload`, `report_audit_module_load_error`).
#[must_use]
pub fn passed_over(stderr: &[u8]) -> Vec<BString> {
    let name = |line: &[u8]| {
        let (_, rest) = line.split_once_str(b"ERROR: ld.so: object '")?;
        let end = rest.find(b"' from ").or_else(|| rest.find(b"' cannot be loaded"))?;
        Some(BString::from(&rest[..end]))
    };
    stderr.split(|byte| *byte == b'\n').filter_map(name).collect()
}

#[cfg(test)]
mod tests;
