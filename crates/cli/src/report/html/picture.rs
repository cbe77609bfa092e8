//! The search of one program: its picture, and the lists of the worst directories and needed strings.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use becalm_lib::report::start::Try;
use bstr::{BStr, ByteSlice};

use crate::report::html::format::shown;
use crate::report::html::grid::{Axes, Grid, place};

/// The number of rows in the lists of the names with the most misses.
const WORST: usize = 12;

/// A name of each probe, for a list of those with the most misses.
type Name = (&'static str, fn(&Try) -> &BStr);

/// The lists of a start.
pub(crate) const OF_START: [Name; 2] = [
    ("Directories that cost most", place),
    ("Needed strings that cost most", |one| one.needed.as_bstr()),
];
/// The lists of what is opened at run time.
pub(crate) const OF_DLOPEN: [Name; 3] =
    [OF_START[0], OF_START[1], ("Objects that cost most", |one| one.needed_by.as_bstr())];

/// One search.
#[derive(Debug)]
pub(crate) struct Search {
    /// The id of the text for the details of a cell.
    pub(crate) id: String,
    /// The picture, if there is a miss.
    pub(crate) grid: Option<Grid>,
    /// Needed strings without a miss, which are not drawn.
    pub(crate) folded: usize,
    /// The picture for the script.
    pub(crate) data: String,
    /// The names with the most misses, and the number of these; none that would be empty.
    pub(crate) lists: Vec<(&'static str, Vec<(String, u64)>)>,
}

impl Search {
    pub(crate) fn of(id: String, tries: &[Try], axes: &Axes<'_>, by: &[Name]) -> Self {
        let grid = Grid::of(tries, axes);
        let lists = by.iter().map(|(title, of)| (*title, worst(tries, *of)));
        Self {
            id,
            folded: axes.folded,
            data: grid.json(axes),
            grid: Some(grid).filter(|grid| grid.rows.iter().any(Option::is_some)),
            lists: lists.filter(|(_, worst)| !worst.is_empty()).collect(),
        }
    }
}

/// Returns the names with the most misses, and their misses.
fn worst(tries: &[Try], of: fn(&Try) -> &BStr) -> Vec<(String, u64)> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for one in tries.iter().filter(|one| one.outcome.is_failed_call()) {
        let name = match of(one) {
            name if name.is_empty() => "the call of dlopen".to_owned(),
            name => shown(name),
        };
        *counts.entry(name).or_default() += 1;
    }
    let mut counts: Vec<(String, u64)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, misses)| Reverse(*misses));
    counts.truncate(WORST);
    counts
}
