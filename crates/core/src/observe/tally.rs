//! Counts of lookups, bounded in memory whatever the program does.

use bstr::{BStr, BString};
use rustc_hash::FxHashMap;

use super::{Class, Kind, Lookup};

/// Misses of all kinds and what they took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missed {
    /// Opens that failed.
    pub opens: u64,
    /// Stats that failed.
    pub stats: u64,
    /// Other lookups that failed: access, readlink, exec.
    pub others: u64,
    /// Time of all of them, in nanoseconds, the tracer's own cost subtracted.
    pub ns: u64,
}

impl Missed {
    /// Failed lookups of all kinds.
    #[must_use]
    pub fn total(self) -> u64 {
        self.opens + self.stats + self.others
    }

    /// Counts a lookup, if it is a miss.
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
    /// Lookups that succeeded.
    pub hits: u64,
    /// Lookups that failed.
    pub missed: Missed,
    /// Misses by directory, worst first, ties by name; a directory seen only after
    /// [`ClassTallies::MAX_DIRS`] others is in `other_dirs`.
    pub dirs: Vec<(BString, u64)>,
    /// Misses in directories that are not listed.
    pub other_dirs: u64,
}

/// Lookups by class and directory, while they happen.
#[derive(Clone, Debug, Default)]
pub struct ClassTallies {
    classes: FxHashMap<Class, Counting>,
}

#[derive(Clone, Debug, Default)]
struct Counting {
    hits: u64,
    missed: Missed,
    dirs: FxHashMap<BString, u64>,
    other_dirs: u64,
}

impl ClassTallies {
    /// Directories told apart in a class.
    pub const MAX_DIRS: usize = 1024;

    /// Counts one lookup of a class.
    pub fn add(&mut self, class: Class, lookup: &Lookup) {
        let counting = self.classes.entry(class).or_default();
        if !lookup.is_miss() {
            counting.hits += 1;
            return;
        }
        counting.missed.add(lookup);
        counting.charge(lookup.dir());
    }

    /// The counts, the class with the most misses first, ties by name.
    #[must_use]
    pub fn finish(self) -> Vec<(Class, ClassTally)> {
        let mut list: Vec<(Class, ClassTally)> =
            self.classes.into_iter().map(|(class, counting)| (class, counting.finish())).collect();
        list.sort_by(|(a, x), (b, y)| {
            y.missed.total().cmp(&x.missed.total()).then_with(|| a.cmp(b))
        });
        list
    }
}

impl Counting {
    fn charge(&mut self, dir: &BStr) {
        if let Some(count) = self.dirs.get_mut(dir) {
            *count += 1;
        } else if self.dirs.len() < ClassTallies::MAX_DIRS {
            self.dirs.insert(dir.to_owned(), 1);
        } else {
            self.other_dirs += 1;
        }
    }

    fn finish(self) -> ClassTally {
        let mut dirs: Vec<(BString, u64)> = self.dirs.into_iter().collect();
        dirs.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        ClassTally { hits: self.hits, missed: self.missed, dirs, other_dirs: self.other_dirs }
    }
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
    }
}
