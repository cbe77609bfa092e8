//! Counts lookups in bounded memory.

use bstr::{BStr, BString};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::offenders::first;
use super::{Class, Kind, Lookup};
use crate::lossy::lossy;
use crate::path;

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
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClassLookups {
    /// The class.
    pub class: Class,
    /// Lookups that succeeded.
    #[serde(default)]
    pub hits: u64,
    /// Lookups that failed.
    #[serde(default)]
    pub missed: Missed,
    /// The misses by directory, the worst 1,024 (input of `becalm index --paths-from`).
    #[serde(default)]
    pub dirs: Vec<MissedPath>,
    /// The misses by file name, the worst 50.
    #[serde(default, serialize_with = "first")]
    pub names: Vec<MissedName>,
    /// Successful lookups that repeat an earlier one: the same call on the same path succeeded
    /// before.
    #[serde(default)]
    pub repeated: Repeated,
}

impl ClassLookups {
    /// Returns the number of all lookups.
    #[must_use]
    pub fn lookups(&self) -> u64 {
        self.hits + self.missed.total()
    }
}

/// Misses in a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissedPath {
    /// The directory; empty for bare names.
    #[serde(serialize_with = "lossy")]
    pub path: BString,
    /// The number of misses.
    pub misses: u64,
}

/// Misses of a file name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissedName {
    /// The name.
    #[serde(serialize_with = "lossy")]
    pub name: BString,
    /// The number of misses.
    pub misses: u64,
}

/// Successful lookups that repeat an earlier one.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Repeated {
    /// Their number.
    pub count: u64,
    /// Their time in nanoseconds.
    pub ns: u64,
    /// The paths, the worst 1,024.
    pub paths: Vec<RepeatedPath>,
}

/// A path that is found repeatedly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepeatedPath {
    /// The path.
    #[serde(serialize_with = "lossy")]
    pub path: BString,
    /// The number of times beyond the first.
    pub times: u64,
}

/// The running counts of lookups by class and directory.
#[derive(Clone, Debug, Default)]
pub struct ClassTallies {
    classes: FxHashMap<Class, Counting>,
}

#[derive(Clone, Debug, Default)]
struct Counting {
    hits: u64,
    missed: Missed,
    dirs: FxHashMap<BString, u64>,
    names: FxHashMap<BString, u64>,
    /// The repeated lookups, without those by path.
    repeated: Repeated,
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
            counting.hits += 1;
            counting.repeat(lookup);
            return;
        }
        counting.missed.add(lookup);
        charge(&mut counting.dirs, path::dir(&lookup.path));
        charge(&mut counting.names, path::name(&lookup.path));
    }

    /// Returns the counts. The class with the most misses and repetitions is first, equal numbers are
    /// sorted by name.
    #[must_use]
    pub fn finish(self) -> Vec<ClassLookups> {
        let mut list: Vec<ClassLookups> =
            self.classes.into_iter().map(|(class, counting)| counting.finish(class)).collect();
        let cost = |it: &ClassLookups| it.missed.total() + it.repeated.count;
        list.sort_by(|a, b| cost(b).cmp(&cost(a)).then_with(|| a.class.cmp(&b.class)));
        list
    }
}

impl Counting {
    fn repeat(&mut self, lookup: &Lookup) {
        let found = self.found.entry(lookup.kind).or_default();
        if let Some(times) = found.get_mut(&lookup.path) {
            *times += 1;
            self.repeated.count += 1;
            self.repeated.ns += lookup.ns;
        } else if found.len() < ClassTallies::MAX_PATHS {
            found.insert(lookup.path.clone(), 1);
        }
    }

    fn finish(self, class: Class) -> ClassLookups {
        let Self { hits, missed, dirs, names, mut repeated, found } = self;
        let mut again: FxHashMap<BString, u64> = FxHashMap::default();
        for (path, times) in found.into_values().flatten().filter(|(_, times)| *times > 1) {
            *again.entry(path).or_default() += times - 1;
        }
        repeated.paths = most_first(again, |path, times| RepeatedPath { path, times });
        repeated.paths.truncate(ClassTallies::MAX_DIRS);
        let dirs = most_first(dirs, |path, misses| MissedPath { path, misses });
        let names = most_first(names, |name, misses| MissedName { name, misses });
        ClassLookups { class, hits, missed, dirs, names, repeated }
    }
}

/// Counts a name, unless there are too many others.
fn charge(counts: &mut FxHashMap<BString, u64>, name: &BStr) {
    if counts.contains_key(name) || counts.len() < ClassTallies::MAX_DIRS {
        *counts.entry(name.to_owned()).or_default() += 1;
    }
}

fn most_first<T>(counts: FxHashMap<BString, u64>, entry: fn(BString, u64) -> T) -> Vec<T> {
    let mut list: Vec<(BString, u64)> = counts.into_iter().collect();
    list.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    list.into_iter().map(|(name, count)| entry(name, count)).collect()
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
        let tally = &tallies.finish()[0];
        assert_eq!(tally.dirs.len(), ClassTallies::MAX_DIRS);
        assert_eq!(tally.dirs[0], MissedPath { path: "/d7".into(), misses: 2 });
        assert_eq!((tally.missed.opens, tally.missed.ns), (5_001, 7 * 5_001));
        let names = [("x", 5_000), ("y", 1)];
        assert_eq!(tally.names, names.map(|(n, misses)| MissedName { name: n.into(), misses }));
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
        let tally = &tallies.finish()[0];
        assert_eq!((tally.hits, tally.repeated.count, tally.repeated.ns), (5, 2, 14));
        assert_eq!(tally.repeated.paths, [RepeatedPath { path: "/site".into(), times: 2 }]);
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
