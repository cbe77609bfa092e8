//! The picture of a grid, and the lists of the worst directories and needed strings.

use becalm_lib::words::grouped;

use crate::report::html::format::percent;
use crate::report::html::grid::{Axes, Grid, KINDS, RowOf};

/// The search of one program.
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

/// A directory or needed string and its misses.
#[derive(Debug)]
pub(crate) struct Worst {
    pub(crate) name: String,
    pub(crate) misses: String,
    /// Share of the largest number of misses, in per cent.
    pub(crate) share: String,
}

impl Picture {
    pub(crate) fn of(grid: &Grid, axes: &Axes<'_>) -> Self {
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

/// The names with the most misses, of one kind.
#[derive(Debug)]
pub(crate) struct List {
    pub(crate) title: &'static str,
    pub(crate) worst: Vec<Worst>,
}

/// Makes the lists of names with misses; none that would be empty.
pub(crate) fn lists<const N: usize>(all: [(&'static str, Vec<(&str, u64)>); N]) -> Vec<List> {
    let lists = all.into_iter().map(|(title, names)| List { title, worst: worst(names) });
    lists.filter(|list| !list.worst.is_empty()).collect()
}

fn worst(mut all: Vec<(&str, u64)>) -> Vec<Worst> {
    all.retain(|(_, misses)| *misses > 0);
    all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    let most = all.first().map_or(1, |(_, misses)| *misses);
    let line = |(name, misses): &(&str, u64)| Worst {
        name: (*name).to_owned(),
        misses: grouped(*misses),
        share: percent(*misses, most),
    };
    all.iter().take(WORST).map(line).collect()
}

/// Returns the size of a cell in pixels: a picture of up to 120 columns fits half of a page.
pub(crate) fn cell_px(columns: usize) -> usize {
    match columns {
        0..20 => 16,
        20..60 => 8,
        60..120 => 4,
        _ => 3,
    }
}

/// The number of rows in the lists of the names with the most misses.
pub(crate) const WORST: usize = 12;
