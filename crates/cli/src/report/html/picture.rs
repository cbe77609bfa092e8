//! The search of one program: its picture, and the lists of the worst directories and needed strings.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use becalm_lib::report::start::Try;
use becalm_lib::words::grouped;
use bstr::{BStr, ByteSlice};

use crate::report::html::format::shown;
use crate::report::html::grid::{Axes, Grid, KINDS, RowOf, place};

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
    pub(crate) picture: Option<Picture>,
    /// The names with the most misses, and the number of these; none that would be empty.
    pub(crate) lists: Vec<(&'static str, Vec<(String, u64)>)>,
}

/// The picture of one search.
#[derive(Debug)]
pub(crate) struct Picture {
    pub(crate) width: usize,
    pub(crate) height: usize,
    /// Width and height in pixels; those of a cell are whole.
    pub(crate) px: (usize, usize),
    /// Needed strings without a miss, which are not drawn.
    pub(crate) folded: usize,
    pub(crate) label: String,
    pub(crate) layers: Vec<(&'static str, String)>,
    pub(crate) data: String,
    pub(crate) left_out: Option<String>,
    pub(crate) rows: Vec<RowOf>,
}

impl Search {
    pub(crate) fn of(id: String, tries: &[Try], axes: &Axes<'_>, by: &[Name]) -> Self {
        let grid = Grid::of(tries, axes);
        let lists = by.iter().map(|(title, of)| (*title, worst(tries, *of)));
        Self {
            id,
            picture: grid.rows.iter().any(Option::is_some).then(|| Picture::of(&grid, axes)),
            lists: lists.filter(|(_, worst)| !worst.is_empty()).collect(),
        }
    }
}

impl Picture {
    fn of(grid: &Grid, axes: &Axes<'_>) -> Self {
        let (width, height) = grid.extent();
        let px = cell_px(grid.size().1);
        let rows = grid.rows.iter().flatten().count();
        let columns = grid.columns.iter().filter(|(misses, hits)| misses + hits > 0).count();
        let layers = KINDS.iter().enumerate().map(|(kind, style)| (*style, grid.path(kind)));
        Self {
            width,
            height,
            label: format!(
                "{} needed strings against {} places to search: {} misses",
                grouped(rows as u64),
                grouped(columns as u64),
                grouped(grid.misses()),
            ),
            layers: layers.filter(|(_, path)| !path.is_empty()).collect(),
            data: grid.json(axes),
            px: (grid.size().1 * px, grid.size().0 * px),
            folded: axes.folded,
            left_out: (grid.left_out > 0).then(|| grouped(grid.left_out)),
            rows: grid.rows.iter().flatten().cloned().collect(),
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

/// Returns the size of a cell in pixels: a picture of up to 120 columns fits half of a page.
fn cell_px(columns: usize) -> usize {
    match columns {
        0..20 => 16,
        20..60 => 8,
        60..120 => 4,
        _ => 3,
    }
}
