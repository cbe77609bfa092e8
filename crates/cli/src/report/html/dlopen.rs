//! The search for libraries that a program opens at run time, drawn like that of its start.

use std::collections::BTreeMap;

use becalm_core::probe::Outcome;
use becalm_lib::escape::shown;
use bstr::{BString, ByteSlice};

use crate::report::html::grid::{Axes, Grid};
use crate::report::html::picture::{List, Picture, lists};
use becalm_lib::report::start::{Snapshot, Try};

/// Searches of `dlopen` of one program.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) id: &'static str,
    pub(crate) heading: &'static str,
    /// The text for the details of a cell.
    pub(crate) told: String,
    pub(crate) picture: Option<Picture>,
    pub(crate) lists: Vec<List>,
}

/// Returns the misses of `dlopen` in the run of a program.
pub(crate) fn misses(side: &Snapshot) -> u64 {
    tries(side).iter().filter(|one| one.outcome.is_failed_call()).count() as u64
}

fn tries(side: &Snapshot) -> &[Try] {
    side.observed.as_ref().map_or(&[], |seen| &seen.dlopens)
}

/// Makes a view of each program; no view if no run has a miss.
pub(crate) fn views(sides: &[(&'static str, &'static str, &Snapshot)]) -> Vec<Opened> {
    if sides.iter().all(|(_, _, side)| misses(side) == 0) {
        return Vec::new();
    }
    let axes = Axes::of(sides.iter().flat_map(|(_, _, side)| tries(side)));
    sides.iter().map(|&(id, heading, side)| Opened::of(id, heading, tries(side), &axes)).collect()
}

impl Opened {
    fn of(id: &'static str, heading: &'static str, tries: &[Try], axes: &Axes<'_>) -> Self {
        let grid = Grid::of(tries, axes);
        let by = |of: fn(&Try) -> &BString| counts(tries, of);
        let counted = [
            by(|one| one.dir.as_ref().unwrap_or(&one.needed)),
            by(|one| &one.needed),
            by(|one| &one.needed_by),
        ];
        let [dirs, needed, objects] = counted
            .each_ref()
            .map(|counts| counts.iter().map(|(name, misses)| (name.as_str(), *misses)).collect());
        Self {
            id,
            heading,
            told: format!("dlopen-{id}"),
            picture: grid.rows.iter().any(Option::is_some).then(|| Picture::of(&grid, axes)),
            lists: lists([
                ("Directories that cost most", dirs),
                ("Needed strings that cost most", needed),
                ("Objects that cost most", objects),
            ]),
        }
    }
}

/// Sums the misses by a name of each probe.
fn counts(tries: &[Try], of: fn(&Try) -> &BString) -> BTreeMap<String, u64> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for one in tries.iter().filter(|one| Outcome::is_failed_call(one.outcome)) {
        let name = of(one);
        let name =
            if name.is_empty() { "the call of dlopen".to_owned() } else { shown(name.as_bstr()) };
        *counts.entry(name).or_default() += 1;
    }
    counts
}
