//! The misses of a start by their causes: of a closure, or of a traced start.

use bstr::{BStr, BString, ByteSlice};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize, Serializer};

use super::Attributed;
use crate::closure::Closure;
use crate::cost::is_searched;
use crate::lossy::lossy;
use crate::path;
use crate::probe::{Call, LoggedProbe};

/// Misses of one cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offender {
    /// Its name.
    #[serde(serialize_with = "lossy")]
    pub name: BString,
    /// Failed opens.
    pub opens: u64,
    /// Failed stats.
    pub stats: u64,
}

impl Offender {
    /// Returns the number of misses.
    #[must_use]
    pub fn misses(&self) -> u64 {
        self.opens.saturating_add(self.stats)
    }
}

/// Misses of the loader by their causes, the most first.
///
/// Equal numbers are sorted by name.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Offenders {
    /// By search directory, hwcaps subdirectories left out.
    #[serde(serialize_with = "first")]
    pub directories: Vec<Offender>,
    /// By needed string.
    #[serde(serialize_with = "first")]
    pub needed: Vec<Offender>,
    /// By requester.
    #[serde(serialize_with = "first")]
    pub objects: Vec<Offender>,
}

/// Serialises the first 50 entries of a list.
///
/// # Errors
/// Returns an error of the serializer.
pub fn first<T: Serialize, S: Serializer>(list: &[T], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(list.iter().take(50))
}

/// One failed call and its causes.
#[derive(Clone, Copy, Debug)]
pub struct Miss<'a> {
    /// The search dir. A direct path has none.
    pub directory: Option<&'a BStr>,
    /// The needed string.
    pub needed: &'a BStr,
    /// The requester.
    pub object: &'a BStr,
    /// The kind of the call.
    pub call: Call,
}

impl Offenders {
    /// Counts the misses of a closure.
    #[must_use]
    pub fn of(closure: &Closure) -> Self {
        let load = &closure.load;
        let failed = load.probes.iter().filter(|probe| probe.outcome.is_failed_call());
        Self::charge(failed.map(|probe| {
            let resolution = &load.resolutions[probe.resolution];
            let is_searched = is_searched(probe.source, probe.dir(), probe.path.as_bstr());
            Miss {
                directory: is_searched.then_some(probe.dir()),
                needed: resolution.needed.as_ref(),
                object: load.objects[resolution.needed_by].path.as_ref(),
                call: probe.call,
            }
        }))
    }

    /// Counts misses by each of their causes.
    #[must_use]
    pub fn charge<'a>(misses: impl Iterator<Item = Miss<'a>>) -> Self {
        let misses: Vec<Miss<'_>> = misses.collect();
        let by = |name: fn(&Miss<'a>) -> Option<&'a BStr>| {
            worst_first(misses.iter().filter_map(|miss| Some((name(miss)?, miss.call))))
        };
        Self {
            directories: by(|miss| miss.directory),
            needed: by(|miss| Some(miss.needed)),
            objects: by(|miss| Some(miss.object)),
        }
    }
}

fn worst_first<'a>(misses: impl Iterator<Item = (&'a BStr, Call)>) -> Vec<Offender> {
    let mut counts: FxHashMap<&BStr, [u64; 2]> = FxHashMap::default();
    for (name, call) in misses {
        counts.entry(name).or_default()[usize::from(call == Call::Stat)] += 1;
    }
    let mut list: Vec<Offender> = counts
        .into_iter()
        .map(|(name, [opens, stats])| Offender { name: name.to_owned(), opens, stats })
        .collect();
    list.sort_by(|a, b| b.misses().cmp(&a.misses()).then_with(|| a.name.cmp(&b.name)));
    list
}

impl Attributed {
    /// Counts the observed misses by their causes. The directory of a miss without a prediction is that
    /// of its path. `closure` must be the argument of [`super::attribute()`].
    #[must_use]
    pub fn offenders(&self, closure: &Closure) -> Offenders {
        let dirs: Vec<&BStr> = closure.load.probes.iter().map(LoggedProbe::dir).collect();
        let both = self.probes.iter().zip(&self.predicted);
        let failed = both.filter(|(probe, _)| probe.outcome.is_failed_call());
        Offenders::charge(failed.map(|(probe, index)| {
            let path = probe.path.as_bstr();
            // A path without a prediction is charged to its own directory.
            let own = path::parent(path);
            let dir = index.and_then(|index| dirs.get(index).copied());
            let is_searched = dir.is_none_or(|dir| is_searched(probe.source, dir, path));
            Miss {
                directory: is_searched.then_some(dir.unwrap_or(own)),
                needed: probe.needed.as_ref(),
                object: probe.needed_by.as_ref(),
                call: probe.call,
            }
        }))
    }
}
