//! Counts lookups in bounded memory.

use bstr::{BStr, BString};
use rustc_hash::FxHashMap;

use super::{Class, Kind, Lookup};

/// The number and duration of failed lookups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missed {
    /// Failed opens.
    pub opens: u64,
    /// Failed stats.
    pub stats: u64,
    /// Other failed lookups: access, readlink, exec.
    pub others: u64,
    /// The total duration in nanoseconds, without the tracer's own cost.
    pub ns: u64,
}

impl Missed {
    /// Returns the number of failed lookups of all kinds.
    #[must_use]
    pub fn total(self) -> u64 {
        self.opens + self.stats + self.others
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
    other_dirs: u64,
}

impl ClassTallies {
    /// The limit on separately counted directories of a class.
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

    /// Returns the counts. The class with the most misses is first, equal numbers are sorted by name.
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
