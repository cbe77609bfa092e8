//! Counts the cost of a closure's search: in total, by directory, by needed string and by search
//! source.

use bstr::{BStr, BString};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

use crate::closure::Closure;
use crate::loader::load::Load;
use crate::probe::{Call, LoggedProbe, Outcome, SearchSource};

/// The cost of the loader's search in one start. Every field is a count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchCost {
    /// Objects in the load set: the program, its libraries, preloads, audit modules and the loader.
    pub objects: u64,
    /// Search dirs with at least one probe. Hwcaps subdirectories are not counted separately.
    pub search_dirs: u64,
    /// All probes.
    pub probes: u64,
    /// Probes with the outcome `hit`: files that answered and directories that exist.
    pub hits: u64,
    /// Failed `open` calls.
    pub missed_opens: u64,
    /// Failed `stat` calls.
    pub missed_stats: u64,
    /// Failed calls of both kinds in hwcaps subdirectories.
    #[serde(default)]
    pub hwcaps_misses: u64,
}

impl SearchCost {
    /// Counts a start.
    #[must_use]
    pub fn of(load: &Load) -> Self {
        Self::of_probes(load, load.probes.iter())
    }

    /// Counts some of the probes of a start.
    pub fn of_probes<'a>(load: &Load, probes: impl Iterator<Item = LoggedProbe<'a>>) -> Self {
        Self::count(load, probes.map(|probe| Counted::new(&probe, probe.outcome)))
    }

    /// Counts probes of a start.
    pub(crate) fn count<'a>(load: &Load, probes: impl Iterator<Item = Counted<'a>>) -> Self {
        let mut storm = Self { objects: load.objects.len() as u64, ..Self::default() };
        let mut dirs: FxHashSet<&BStr> = FxHashSet::default();
        for Counted { dir, is_of_hwcaps, call, outcome } in probes {
            storm.probes += 1;
            dirs.extend(dir);
            storm.hits += u64::from(outcome == Outcome::Hit);
            if outcome.is_failed_call() {
                storm.hwcaps_misses += u64::from(is_of_hwcaps);
                match call {
                    Call::Open => storm.missed_opens += 1,
                    Call::Stat => storm.missed_stats += 1,
                }
            }
        }
        storm.search_dirs = dirs.len() as u64;
        storm
    }

    /// Returns the number of failed calls of both kinds.
    #[must_use]
    pub fn misses(&self) -> u64 {
        self.missed_opens + self.missed_stats
    }

    /// Adds the counts of another start.
    pub fn add(&mut self, other: &SearchCost) {
        self.objects += other.objects;
        self.search_dirs += other.search_dirs;
        self.probes += other.probes;
        self.hits += other.hits;
        self.missed_opens += other.missed_opens;
        self.missed_stats += other.missed_stats;
        self.hwcaps_misses += other.hwcaps_misses;
    }
}

/// A probe, as [`SearchCost`] counts it.
pub(crate) struct Counted<'a> {
    /// The search dir. A direct path has none.
    pub(crate) dir: Option<&'a BStr>,
    /// As [`is_of_hwcaps`].
    pub(crate) is_of_hwcaps: bool,
    pub(crate) call: Call,
    pub(crate) outcome: Outcome,
}

impl<'a> Counted<'a> {
    /// Makes a predicted probe with an outcome.
    pub(crate) fn new(probe: &LoggedProbe<'a>, outcome: Outcome) -> Self {
        // The current directory has an empty name.
        let dir = is_searched(probe.source, probe.dir, probe.path).then_some(probe.dir);
        Self { dir, is_of_hwcaps: is_of_hwcaps(probe), call: probe.call, outcome }
    }
}

/// Counts the failed calls of each object's own lookups, in the order of [`Load::objects`].
#[must_use]
pub fn misses_by_object(load: &Load) -> Vec<u64> {
    let mut misses = vec![0; load.objects.len()];
    for probe in load.probes.iter().filter(|probe| probe.outcome.is_failed_call()) {
        // A probe along an inherited `DT_RPATH` counts for the requester, because only its lookup
        // causes it.
        misses[load.resolutions[probe.resolution].needed_by] += 1;
    }
    misses
}

/// Returns true for a probe of a hwcaps subdirectory of a search dir, or of a file in one.
#[must_use]
pub fn is_of_hwcaps(probe: &LoggedProbe<'_>) -> bool {
    is_searched(probe.source, probe.dir, probe.path) && probe.is_in_subdirectory()
}

pub(crate) fn is_searched(source: SearchSource, dir: &BStr, path: &BStr) -> bool {
    match source {
        // The answer of a cache is opened without a search in its directory.
        SearchSource::Direct | SearchSource::LoaderCache | SearchSource::PackageCache => false,
        _ => !dir.is_empty() || !path.starts_with(b"/"),
    }
}

/// The failed calls of one directory, needed string, object or search source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Misses {
    /// Failed `open` calls.
    pub opens: u64,
    /// Failed `stat` calls.
    pub stats: u64,
}

impl Misses {
    /// Returns the sum of both kinds.
    #[must_use]
    pub fn total(self) -> u64 {
        self.opens + self.stats
    }

    fn count(&mut self, call: Call) {
        match call {
            Call::Open => self.opens += 1,
            Call::Stat => self.stats += 1,
        }
    }
}

/// The misses of a start by their causes. Each list begins with the most misses; equal numbers are
/// sorted by name.
#[derive(Clone, Debug, Default)]
pub struct Offenders {
    /// By search directory.
    pub directories: Vec<(BString, Misses)>,
    /// By needed string.
    pub needed: Vec<(BString, Misses)>,
    /// By requester.
    pub objects: Vec<(BString, Misses)>,
    /// By search source.
    pub sources: Vec<(SearchSource, Misses)>,
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
    /// The search source.
    pub source: SearchSource,
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
            let is_searched = is_searched(probe.source, probe.dir, probe.path);
            Miss {
                directory: is_searched.then_some(probe.dir),
                needed: resolution.needed.as_ref(),
                object: load.objects[resolution.needed_by].path.as_ref(),
                source: probe.source,
                call: probe.call,
            }
        }))
    }

    /// Counts misses by each of their causes.
    #[must_use]
    pub fn charge<'a>(misses: impl Iterator<Item = Miss<'a>>) -> Self {
        let mut directories: FxHashMap<&BStr, Misses> = FxHashMap::default();
        let mut needed: FxHashMap<&BStr, Misses> = FxHashMap::default();
        let mut objects: FxHashMap<&BStr, Misses> = FxHashMap::default();
        let mut sources: FxHashMap<SearchSource, Misses> = FxHashMap::default();
        for miss in misses {
            if let Some(directory) = miss.directory {
                directories.entry(directory).or_default().count(miss.call);
            }
            needed.entry(miss.needed).or_default().count(miss.call);
            objects.entry(miss.object).or_default().count(miss.call);
            sources.entry(miss.source).or_default().count(miss.call);
        }
        let own = |(name, misses): (&BStr, Misses)| (name.to_owned(), misses);
        Self {
            directories: worst_first(directories.into_iter().map(own)),
            needed: worst_first(needed.into_iter().map(own)),
            objects: worst_first(objects.into_iter().map(own)),
            sources: worst_first(sources.into_iter()),
        }
    }
}

fn worst_first<K: Ord>(counts: impl Iterator<Item = (K, Misses)>) -> Vec<(K, Misses)> {
    let mut list: Vec<(K, Misses)> = counts.collect();
    list.sort_by(|a, b| b.1.total().cmp(&a.1.total()).then_with(|| a.0.cmp(&b.0)));
    list
}
