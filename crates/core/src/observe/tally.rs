//! Counts lookups in bounded memory.

use bstr::{BStr, BString};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::{Class, Kind, Lookup};

/// Failed lookups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Missed {
    /// Failed opens.
    pub opens: u64,
    /// Failed stats.
    pub stats: u64,
    /// Other failed lookups: access, readlink, exec.
    pub others: u64,
    /// Their time in nanoseconds.
    ///
    /// The tracer's own cost is subtracted.
    pub ns: u64,
}

impl Missed {
    /// Returns the number of failed lookups of all kinds.
    #[must_use]
    pub fn total(self) -> u64 {
        self.opens.saturating_add(self.stats).saturating_add(self.others)
    }

    /// Counts a lookup if it failed.
    pub fn add(&mut self, lookup: &Lookup) {
        if !lookup.is_miss() {
            return;
        }
        match lookup.kind {
            Kind::Open => self.opens += 1,
            Kind::Stat => self.stats += 1,
            Kind::Access | Kind::Readlink | Kind::Exec => self.others += 1,
        }
        self.ns += lookup.ns;
    }
}

/// The lookups of one class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassTally {
    /// Successful lookups.
    pub hits: u64,
    /// Failed lookups.
    pub missed: Missed,
    /// The misses by directory, the most first, equal numbers by name. Directories after the first
    /// [`ClassTallies::MAX_DIRS`] are counted in `other_dirs`.
    pub dirs: Vec<(BString, u64)>,
    /// The misses in other directories.
    pub other_dirs: u64,
    /// The misses by file name, the most first, with the same limit.
    pub names: Vec<(BString, u64)>,
    /// The successful lookups that repeat an earlier one: the same call on the same path succeeded
    /// before. Of more than [`ClassTallies::MAX_PATHS`] paths the others are not counted.
    pub repeated: Repeated,
}

/// Successful lookups that repeat an earlier one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repeated {
    /// Their number.
    pub count: u64,
    /// Their total duration in nanoseconds, without the tracer's own cost.
    pub ns: u64,
    /// The number for each path, the highest first, equal numbers by path; at most
    /// [`ClassTallies::MAX_DIRS`] paths.
    pub paths: Vec<(BString, u64)>,
}

/// The running counts of lookups by class and directory.
#[derive(Clone, Debug, Default)]
pub struct ClassTallies {
    classes: FxHashMap<Class, Counting>,
}

#[derive(Clone, Debug, Default)]
struct Counting {
    /// The counts, without those by directory, name and path.
    tally: ClassTally,
    dirs: FxHashMap<BString, u64>,
    names: FxHashMap<BString, u64>,
    /// The number of times that each path was found, by kind of call.
    found: FxHashMap<Kind, FxHashMap<BString, u64>>,
}

impl ClassTallies {
    /// The limit on separately counted directories of a class.
    pub(crate) const MAX_DIRS: usize = 1024;

    /// The limit on paths of a class and kind of call that are watched for repetitions.
    pub(crate) const MAX_PATHS: usize = 65_536;

    /// Counts one lookup of a class.
    pub fn add(&mut self, class: Class, lookup: &Lookup) {
        let counting = self.classes.entry(class).or_default();
        if !lookup.is_miss() {
            counting.tally.hits += 1;
            counting.repeat(lookup);
            return;
        }
        counting.tally.missed.add(lookup);
        let is_counted = charge(&mut counting.dirs, lookup.dir());
        counting.tally.other_dirs += u64::from(!is_counted);
        charge(&mut counting.names, lookup.name());
    }

    /// Returns the counts. The class with the most misses and repetitions is first, equal numbers are
    /// sorted by name.
    #[must_use]
    pub fn finish(self) -> Vec<(Class, ClassTally)> {
        let mut list: Vec<(Class, ClassTally)> =
            self.classes.into_iter().map(|(class, counting)| (class, counting.finish())).collect();
        let cost = |tally: &ClassTally| tally.missed.total() + tally.repeated.count;
        list.sort_by(|(a, x), (b, y)| cost(y).cmp(&cost(x)).then_with(|| a.cmp(b)));
        list
    }
}

impl Counting {
    fn repeat(&mut self, lookup: &Lookup) {
        let found = self.found.entry(lookup.kind).or_default();
        if let Some(times) = found.get_mut(&lookup.path) {
            *times += 1;
            self.tally.repeated.count += 1;
            self.tally.repeated.ns += lookup.ns;
        } else if found.len() < ClassTallies::MAX_PATHS {
            found.insert(lookup.path.clone(), 1);
        }
    }

    fn finish(self) -> ClassTally {
        let mut again: FxHashMap<BString, u64> = FxHashMap::default();
        for (path, times) in self.found.into_values().flatten().filter(|(_, times)| *times > 1) {
            *again.entry(path).or_default() += times - 1;
        }
        let mut tally = self.tally;
        (tally.dirs, tally.names) = (most_first(self.dirs), most_first(self.names));
        tally.repeated.paths = most_first(again);
        tally.repeated.paths.truncate(ClassTallies::MAX_DIRS);
        tally
    }
}

/// Counts a name. Returns false if there are too many others.
fn charge(counts: &mut FxHashMap<BString, u64>, name: &BStr) -> bool {
    let is_counted = counts.contains_key(name) || counts.len() < ClassTallies::MAX_DIRS;
    if is_counted {
        *counts.entry(name.to_owned()).or_default() += 1;
    }
    is_counted
}

fn most_first(counts: FxHashMap<BString, u64>) -> Vec<(BString, u64)> {
    let mut list: Vec<(BString, u64)> = counts.into_iter().collect();
    list.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::Errno;

    fn miss(path: String) -> Lookup {
        let errno = Some(Errno::NOENT);
        Lookup { kind: Kind::Open, path: path.into(), at_cwd: true, errno, ns: 7, by_loader: false }
    }

    #[test]
    fn a_million_directories_do_not_grow_the_tally() {
        let mut tallies = ClassTallies::default();
        for index in 0..5_000 {
            tallies.add(Class::Other, &miss(format!("/d{index}/x")));
        }
        tallies.add(Class::Other, &miss("/d7/y".into()));
        let (_, tally) = &tallies.finish()[0];
        assert_eq!(tally.dirs.len(), ClassTallies::MAX_DIRS);
        assert_eq!(tally.dirs[0], ("/d7".into(), 2));
        assert_eq!(tally.other_dirs, 5_000 - ClassTallies::MAX_DIRS as u64);
        assert_eq!((tally.missed.opens, tally.missed.ns), (5_001, 7 * 5_001));
        assert_eq!(tally.names, [("x".into(), 5_000), ("y".into(), 1)]);
    }

    #[test]
    fn a_success_that_repeats_another_is_counted_by_path_and_call() {
        let mut tallies = ClassTallies::default();
        let found = |kind, path: &str| Lookup { errno: None, kind, ..miss(path.to_owned()) };
        for _ in 0..3 {
            tallies.add(Class::Python, &found(Kind::Stat, "/site"));
        }
        tallies.add(Class::Python, &found(Kind::Open, "/site"));
        tallies.add(Class::Python, &found(Kind::Open, "/site/a.py"));
        tallies.add(Class::Python, &miss("/site/b.py".to_owned()));
        tallies.add(Class::Python, &miss("/site/b.py".to_owned()));
        let (_, tally) = &tallies.finish()[0];
        assert_eq!((tally.hits, tally.repeated.count, tally.repeated.ns), (5, 2, 14));
        assert_eq!(tally.repeated.paths, [("/site".into(), 2)]);
    }

    #[test]
    fn a_million_found_paths_do_not_grow_the_tally() {
        let mut tallies = ClassTallies::default();
        for index in 0..70_000 {
            tallies.add(Class::Other, &Lookup { errno: None, ..miss(format!("/f{index}")) });
        }
        let counting = &tallies.classes[&Class::Other];
        assert_eq!(counting.found[&Kind::Open].len(), ClassTallies::MAX_PATHS);
    }
}
