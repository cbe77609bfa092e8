//! The loader's search after the entry point, for `dlopen`.
//!
//! The model does not predict this search, so the requester is inferred. The loader maps all objects of
//! one `dlopen` breadth first before the next one begins, and searches for each needed string once
//! (`_dl_map_object_deps` of glibc `elf/dl-deps.c`). The requester of a search is therefore the first
//! object of the current `dlopen` that needs the name and has not searched for it yet. A name that none
//! of them needs begins another `dlopen`.

use std::collections::VecDeque;

use bstr::{BStr, BString, ByteSlice};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

use super::Lookup;
use super::offenders::{Miss, Offender, Offenders, first};
use super::tally::Missed;
use crate::fs::FileSystem;
use crate::path;
use crate::probe::{Call, Outcome};
use crate::search::hwcaps;

/// One attempt of the loader after the entry point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DlopenProbe {
    /// The requester. It is empty for the argument of `dlopen` itself.
    #[serde(with = "crate::lossy")]
    pub needed_by: BString,
    /// The name.
    #[serde(with = "crate::lossy")]
    pub needed: BString,
    /// The search dir, without a hwcaps subdirectory.
    #[serde(with = "crate::lossy")]
    pub directory: BString,
    /// The candidate path.
    #[serde(with = "crate::lossy")]
    pub path: BString,
    /// The kind of the call.
    pub call: Call,
    /// The result.
    pub outcome: Outcome,
}

/// The loader's search after the entry point.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Dlopen {
    /// Lookups that failed.
    pub missed: Missed,
    /// Lookups that succeeded.
    pub hits: u64,
    /// Misses of names that were found later in the same search.
    pub found_misses: u64,
    /// Misses by search directory, hwcaps subdirectories left out; the worst 50.
    #[serde(serialize_with = "first")]
    pub directories: Vec<Offender>,
    /// Misses by needed string, the worst 50.
    #[serde(serialize_with = "first")]
    pub needed: Vec<Needed>,
    /// Misses by the object that needs the name, the worst 50. The name is empty for the argument
    /// of `dlopen`.
    #[serde(serialize_with = "first")]
    pub objects: Vec<Offender>,
    /// Each attempt in order: `needed_by`, `needed`, `directory`, `path`, `call`, `outcome`.
    pub probes: Vec<DlopenProbe>,
    /// Lookups beyond the number that is kept.
    pub dropped: u64,
}

/// Misses of a needed string.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Needed {
    /// The string and its misses.
    #[serde(flatten)]
    pub misses: Offender,
    /// True if the loader found it.
    pub found: bool,
}

/// Infers the requester of each lookup. `lookups` are those of the loader after the entry point, in
/// order. The needed strings of the opened objects are read from `fs`. The loader cache at `cache` is
/// not a candidate. The lookups are not counted.
#[must_use]
pub fn dlopens(lookups: &[Lookup], cache: &BStr, fs: &dyn FileSystem) -> Dlopen {
    let mut requesters = Requesters::default();
    // The current name and its requester.
    let (mut needed, mut needed_by) = (BString::default(), BString::default());
    let (mut probes, mut not_found) = (Vec::new(), FxHashSet::default());
    let attempts = lookups.iter().filter_map(Lookup::attempt);
    for attempt in attempts.filter(|attempt| attempt.path != cache) {
        let directory = match attempt.call {
            Call::Open => {
                let (dir, name) = (path::parent(&attempt.path), path::name(&attempt.path));
                if name != needed {
                    (needed, needed_by) = (name.to_owned(), requesters.take(name));
                }
                dir
            }
            // `open_path` makes this `stat` after the first miss in a directory.
            Call::Stat => attempt.path.as_bstr(),
        };
        if attempt.call == Call::Open && attempt.outcome == Outcome::Hit {
            requesters.opened(&attempt.path, fs);
            not_found.remove(&needed);
        } else if attempt.outcome.is_failed_call() && !requesters.names.contains(&needed) {
            not_found.insert(needed.clone());
        }
        probes.push(DlopenProbe {
            needed_by: needed_by.clone(),
            needed: needed.clone(),
            directory: hwcaps::search_dir(directory).to_owned(),
            path: attempt.path,
            call: attempt.call,
            outcome: attempt.outcome,
        });
    }
    let failed = || probes.iter().filter(|probe: &&DlopenProbe| probe.outcome.is_failed_call());
    let worst = Offenders::charge(failed().map(|probe| Miss {
        directory: Some(probe.directory.as_ref()),
        needed: probe.needed.as_ref(),
        object: probe.needed_by.as_ref(),
        call: probe.call,
    }));
    let is_found = |needed: &BString| !not_found.contains(needed);
    let needed = worst.needed.into_iter().map(|misses| {
        let found = is_found(&misses.name);
        Needed { misses, found }
    });
    Dlopen {
        found_misses: failed().filter(|probe| is_found(&probe.needed)).count() as u64,
        directories: worst.directories,
        needed: needed.collect(),
        objects: worst.objects,
        probes,
        ..Dlopen::default()
    }
}

#[derive(Default)]
struct Requesters {
    /// The objects of the current `dlopen`, by the names that they have not searched for yet.
    by_name: FxHashMap<BString, VecDeque<BString>>,
    /// The file names of all opened files.
    names: FxHashSet<BString>,
}

impl Requesters {
    /// Returns the requester of a search for this name, or an empty path if it begins another `dlopen`.
    fn take(&mut self, name: &BStr) -> BString {
        let waiting = self.by_name.get_mut(name).and_then(VecDeque::pop_front);
        waiting.unwrap_or_else(|| {
            self.by_name.clear();
            BString::default()
        })
    }

    fn opened(&mut self, path: &BString, fs: &dyn FileSystem) {
        self.names.insert(path::name(path).to_owned());
        let Ok(file) = fs.open(path.as_ref()) else { return };
        let Ok(object) = &file.object else { return };
        for dependency in object.dependencies() {
            self.by_name.entry(dependency.name.clone()).or_default().push_back(path.clone());
        }
    }
}

#[cfg(test)]
mod tests;
