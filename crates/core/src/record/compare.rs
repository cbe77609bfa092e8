//! A prediction against an observation, in sequence; the first difference is named.
//!
//! Neither record tells everything a model predicts, so each comparison first drops
//! what the record cannot show; [`crate::record::ld_debug`] says what that is.

use std::fmt;

use bstr::{BStr, BString, ByteSlice};

use crate::probe::{Call, Outcome, Probe, SearchSource};
use crate::record::strace::Attempt;

/// The first place where prediction and observation part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Index in the two sequences, after what the record cannot show was dropped.
    pub index: usize,
    /// What was predicted there; `None` where the prediction had ended.
    pub predicted: Option<String>,
    /// What was observed there; `None` where the observation had ended.
    pub observed: Option<String>,
    /// The last few steps both agree on, oldest first.
    pub before: Vec<String>,
}

/// How many agreed steps a [`Difference`] carries.
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

/// Predicted probes against those of an `LD_DEBUG` record: opens alone, by asker,
/// needed string, path, and whether the try answered. An asker is compared where the
/// record names one; the source never is; of a needed string with a slash the
/// record does not know the expanded path, of one with a token and no slash not the
/// string itself.
#[must_use]
pub fn with_ld_debug(predicted: &[Probe], observed: &[Probe]) -> Option<Difference> {
    let of_search = |probe: &&Probe| probe.call == Call::Open && !is_loader_cache_file(probe);
    let predicted: Vec<&Probe> = predicted.iter().filter(of_search).collect();
    let observed: Vec<&Probe> = observed.iter().filter(of_search).collect();
    let same = |p: &&Probe, o: &&Probe| {
        (o.needed_by.is_empty() || p.needed_by == o.needed_by)
            && (p.needed == o.needed || p.needed.contains(&b'$'))
            && (o.source == SearchSource::Direct || p.path == o.path)
            && (p.outcome == Outcome::Hit) == (o.outcome == Outcome::Hit)
    };
    first_difference(&predicted, &observed, same, |p| describe(p), |o| describe(o))
}

/// Predicted probes against the attempts the kernel saw: every open and stat, by
/// call, path and errno. `observed` is what [`candidates`] left.
#[must_use]
pub fn with_strace(predicted: &[Probe], observed: &[Attempt]) -> Option<Difference> {
    let same = |p: &Probe, o: &Attempt| {
        let outcome = if p.outcome.is_failed_call() { p.outcome } else { Outcome::Hit };
        p.call == o.call && p.path == o.path && outcome == o.outcome
    };
    let show = |o: &Attempt| line(o.call, o.path.as_bstr(), o.outcome);
    first_difference(predicted, observed, same, describe, show)
}

/// The attempts that are probes: without the files that a loader reads for itself (the
/// loader cache if it opens, the preload list, `/proc`, `/sys`), and without the first attempt on
/// `own`, the object that was given to the loader by name. From glibc 2.44 on the loader reads
/// tunables from its cache (`_dl_load_cache_tunables`): the first `stat` of the cache is for them.
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
            let loaders_own = opened && Some(path) == cache
                || path == "/etc/ld.so.preload"
                || path.starts_with(b"/proc/")
                || path.starts_with(b"/sys/");
            !loaders_own
        })
        .collect()
}

/// True for the probe of a loader cache itself, made where it is not there: a loader that
/// tells its tries does not tell this one.
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

/// The needed strings that a loader's list (`LD_TRACE_LOADED_OBJECTS`, `--list`)
/// reports as not found.
#[must_use]
pub fn not_found(list: &[u8]) -> Vec<BString> {
    let name =
        |line: &[u8]| line.trim_ascii_start().strip_suffix(b" => not found").map(BString::from);
    list.split(|byte| *byte == b'\n').filter_map(name).collect()
}

/// The paths of a loader's list (`LD_TRACE_LOADED_OBJECTS`), in load order: the libraries that
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

/// The preloads and audit modules that a loader's warnings on standard error say it
/// goes without (glibc `elf/rtld.c` `do_preload`, `dlmopen_doit`'s caller).
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
