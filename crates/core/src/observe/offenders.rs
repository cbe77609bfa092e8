//! The misses of a start by their causes: of a closure, or of a traced start.

use bstr::{BStr, BString};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize, Serializer};

use crate::closure::Closure;
use crate::cost::searched_dir;
use crate::lossy::lossy;
use crate::probe::Call;

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
pub(super) struct Miss<'a> {
    /// The search dir. A direct path has none.
    pub(super) directory: Option<&'a BStr>,
    /// The needed string.
    pub(super) needed: &'a BStr,
    /// The requester.
    pub(super) object: &'a BStr,
    /// The kind of the call.
    pub(super) call: Call,
}

impl Offenders {
    /// Counts the misses of a closure.
    #[must_use]
    pub fn of(closure: &Closure) -> Self {
        let load = &closure.load;
        let failed = load.probes.iter().filter(|probe| probe.outcome.is_failed_call());
        Self::charge(failed.map(|probe| {
            let resolution = &load.resolutions[probe.resolution];
            Miss {
                directory: searched_dir(probe),
                needed: resolution.needed.as_ref(),
                object: load.objects[resolution.needed_by].path.as_ref(),
                call: probe.call,
            }
        }))
    }

    /// Counts misses by each of their causes.
    pub(super) fn charge<'a>(misses: impl Iterator<Item = Miss<'a>>) -> Self {
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
