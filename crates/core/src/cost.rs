//! Counts the cost of a closure's search.

use bstr::BStr;
use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};

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
        Self::count(load.objects.len(), load.probes.iter())
    }

    /// Counts some of the probes of a start with this number of objects.
    pub fn count<'a>(objects: usize, probes: impl Iterator<Item = &'a LoggedProbe>) -> Self {
        let mut storm = Self { objects: objects as u64, ..Self::default() };
        let mut dirs: FxHashSet<&BStr> = FxHashSet::default();
        for probe in probes {
            storm.probes += 1;
            // The current directory has an empty name.
            dirs.extend(searched_dir(probe));
            storm.hits += u64::from(probe.outcome == Outcome::Hit);
            if probe.outcome.is_failed_call() {
                storm.hwcaps_misses += u64::from(is_of_hwcaps(probe));
                match probe.call {
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
pub fn is_of_hwcaps(probe: &LoggedProbe) -> bool {
    searched_dir(probe).is_some() && probe.is_in_subdirectory()
}

/// Returns the search dir of a probe. A direct path has none.
pub(crate) fn searched_dir(probe: &LoggedProbe) -> Option<&BStr> {
    let dir = probe.dir();
    let is_searched = match probe.source {
        // The answer of a cache is opened without a search in its directory.
        SearchSource::Direct | SearchSource::LoaderCache | SearchSource::PackageCache => false,
        _ => !dir.is_empty() || !probe.path.starts_with(b"/"),
    };
    is_searched.then_some(dir)
}
