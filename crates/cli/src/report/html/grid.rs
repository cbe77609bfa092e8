//! The search as a picture: needed strings down, search directories across, a cell for each pair in
//! which the loader missed or hit.
//!
//! Cells of one kind are one path of an SVG, and runs of them one rectangle, so that tens of
//! thousands cost the browser a few elements. The data of the cells is added as JSON.

use std::collections::BTreeMap;
use std::fmt::Write;

use becalm_core::probe::{Call, SearchSource};
use becalm_lib::escape::shown;
use becalm_lib::words::grouped;
use bstr::{BStr, ByteSlice};
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::json;

use becalm_lib::report::start::Try;

/// The number of rows and columns that are drawn; probes beyond them are counted.
const MOST: usize = 600;

/// Cells with at least this many misses are drawn heavier.
const HEAVIER: [u64; 2] = [2, 6];

/// Width and height of a cell in the picture's own units.
const CELL: usize = 10;

/// The style of each kind of cell: three degrees of misses, and a hit, which is drawn into the
/// cell.
pub(crate) const KINDS: [&str; 4] = ["m1", "m2", "m3", "hit"];
/// The kind of a hit.
const HIT: usize = KINDS.len() - 1;
/// The distance of a hit from the edge of its cell, so that the misses of the same cell remain
/// visible.
const INSET: usize = 2;

/// Axes shared by the pictures of a page: a needed string has the same row and a directory the same
/// column in all of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Axes<'a> {
    rows: FxHashMap<&'a BStr, usize>,
    columns: FxHashMap<&'a BStr, usize>,
    /// Needed strings, in the order of their first lookup.
    needed: Vec<String>,
    /// Search directories, in the order in which they were tried.
    pub dirs: Vec<String>,
    /// Number of needed strings without a miss in any picture.
    pub folded: usize,
}

/// The picture of one start.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grid {
    /// Needed strings, by row; `None` if only another picture has the row.
    pub rows: Vec<Option<RowOf>>,
    /// Misses and hits in each search directory, by column.
    pub columns: Vec<(u64, u64)>,
    /// The cells, by row and column.
    cells: BTreeMap<(usize, usize), Cell>,
    /// Misses that are not drawn, because the picture would be too large.
    pub left_out: u64,
}

/// A needed string.
#[derive(Clone, Debug, Default)]
pub(crate) struct RowOf {
    /// The string.
    pub needed: String,
    /// First requester.
    pub by: String,
    /// All misses for it.
    pub misses: u64,
    /// The search directory in which the string was found.
    pub answer: Option<String>,
}

/// Probes for one string in one directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    opens: u64,
    stats: u64,
    hits: u64,
    /// Misses in hwcaps subdirectories.
    of_hwcaps: u64,
}

impl Cell {
    fn misses(self) -> u64 {
        self.opens + self.stats
    }

    fn is(self, kind: usize) -> bool {
        let misses = self.misses();
        match kind {
            HIT => self.hits > 0,
            kind => misses > 0 && HEAVIER.iter().filter(|from| misses >= **from).count() == kind,
        }
    }
}

impl<'a> Axes<'a> {
    /// Makes the axes of all probes of all pictures, without the needed strings that have no miss.
    pub(crate) fn of(tries: impl Iterator<Item = &'a Try> + Clone) -> Self {
        let tries = tries.filter(|one| one.counts() != (0, 0));
        let missed: FxHashSet<&BStr> =
            tries.clone().filter(|one| one.counts().0 > 0).map(key).collect();
        let all: FxHashSet<&BStr> = tries.clone().map(key).collect();
        let mut axes = Self { folded: all.len() - missed.len(), ..Self::default() };
        for one in tries.filter(|one| missed.contains(key(one))) {
            axes.rows.entry(key(one)).or_insert_with(|| {
                axes.needed.push(shown(one.needed.as_bstr()));
                axes.needed.len() - 1
            });
            axes.columns.entry(place(one)).or_insert_with(|| {
                axes.dirs.push(shown(place(one)));
                axes.dirs.len() - 1
            });
        }
        axes
    }
}

impl Grid {
    /// Makes the picture of all probes of one start; the axes have all of them.
    pub(crate) fn of(tries: &[Try], axes: &Axes<'_>) -> Self {
        let (rows, columns) = (vec![None; axes.needed.len()], vec![(0, 0); axes.dirs.len()]);
        let mut grid = Self { rows, columns, ..Self::default() };
        for one in tries {
            let (missed, hit) = one.counts();
            let at = (axes.rows.get(key(one)), axes.columns.get(place(one)));
            let ((Some(&row), Some(&column)), true) = (at, missed + hit > 0) else { continue };
            let own = grid.rows[row].get_or_insert_with(|| RowOf {
                needed: shown(one.needed.as_bstr()),
                by: shown(one.needed_by.as_bstr()),
                ..RowOf::default()
            });
            own.misses += missed;
            if hit > 0 && own.answer.is_none() {
                own.answer = Some(shown(place(one)));
            }
            grid.columns[column].0 += missed;
            grid.columns[column].1 += hit;
            let cell = grid.cells.entry((row, column)).or_default();
            cell.hits += hit;
            cell.of_hwcaps += if one.of_hwcaps { missed } else { 0 };
            match one.call {
                Call::Open => cell.opens += missed,
                Call::Stat => cell.stats += missed,
            }
        }
        grid.cells.retain(|at, cell| {
            let is_inside = at.0 < MOST && at.1 < MOST;
            grid.left_out += if is_inside { 0 } else { cell.misses() };
            is_inside
        });
        grid
    }

    /// Returns the number of drawn rows and columns.
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.rows.len().min(MOST), self.columns.len().min(MOST))
    }

    /// Returns width and height in the picture's own units.
    pub(crate) fn extent(&self) -> (usize, usize) {
        let (rows, columns) = self.size();
        (columns * CELL, rows * CELL)
    }

    /// Returns width and height in pixels; those of a cell are whole. A picture of up to 120 columns fits half of
    /// a page.
    pub(crate) fn px(&self) -> (usize, usize) {
        let (rows, columns) = self.size();
        let cell = match columns {
            0..20 => 16,
            20..60 => 8,
            60..120 => 4,
            _ => 3,
        };
        (columns * cell, rows * cell)
    }

    /// Describes the picture.
    pub(crate) fn label(&self) -> String {
        let rows = self.rows.iter().flatten().count() as u64;
        let columns = self.columns.iter().filter(|(misses, hits)| misses + hits > 0).count() as u64;
        let [rows, columns, misses] = [rows, columns, self.misses()].map(grouped);
        format!("{rows} needed strings against {columns} places to search: {misses} misses")
    }

    /// Returns the style and the outline of each kind of cell.
    pub(crate) fn layers(&self) -> Vec<(&'static str, String)> {
        let layers = KINDS.iter().enumerate().map(|(kind, style)| (*style, self.path(kind)));
        layers.filter(|(_, path)| !path.is_empty()).collect()
    }

    /// Returns all misses of the picture.
    pub(crate) fn misses(&self) -> u64 {
        self.cells.values().map(|cell| cell.misses()).sum()
    }

    /// Returns the outline of all cells of one kind.
    pub(crate) fn path(&self, kind: usize) -> String {
        let mut path = String::new();
        let mut cells = self.cells.iter().filter(|(_, cell)| cell.is(kind)).peekable();
        while let Some(((row, column), _)) = cells.next() {
            let (inset, mut run) = (if kind == HIT { INSET } else { 0 }, 1);
            while kind != HIT && cells.next_if(|(at, _)| **at == (*row, column + run)).is_some() {
                run += 1;
            }
            let (x, y) = (column * CELL + inset, row * CELL + inset);
            let (width, height) = (run * CELL - 2 * inset, CELL - 2 * inset - 1);
            // Writing to a String cannot fail.
            let _ = write!(path, "M{x} {y}h{width}v{height}h-{width}z");
        }
        path
    }

    /// Returns the data for the page's script, safe in a `script` element: it contains no `<` that
    /// could end it.
    pub(crate) fn json(&self, axes: &Axes<'_>) -> String {
        let (rows, columns) = self.size();
        let rows = || self.rows[..rows].iter().zip(&axes.needed);
        let needed = rows().map(|(row, other)| row.as_ref().map_or(other, |row| &row.needed));
        // Null if no object of this picture requests the string.
        let by = rows().map(|(row, _)| row.as_ref().map(|row| &row.by));
        // Six numbers a cell.
        let cells = self.cells.iter().flat_map(|((row, column), cell)| {
            let counts = [cell.opens, cell.stats, cell.hits, cell.of_hwcaps];
            [*row as u64, *column as u64].into_iter().chain(counts)
        });
        let text = json!({
            "needed": needed.collect::<Vec<_>>(),
            "by": by.collect::<Vec<_>>(),
            "dirs": axes.dirs[..columns],
            "cells": cells.collect::<Vec<_>>(),
        })
        .to_string();
        text.replace('<', "\\u003c")
    }
}

/// Returns the row of a probe: the file name of the needed string, so that a string which became a
/// path keeps its row.
fn key(one: &Try) -> &BStr {
    BStr::new(one.needed.rsplit_str("/").next().unwrap_or_default())
}

/// Returns the column of a probe: its search directory, or a name for the lack of one.
pub(crate) fn place(one: &Try) -> &BStr {
    match (&one.dir, one.source) {
        // An empty element of a search path.
        (Some(dir), _) if dir.is_empty() => BStr::new("."),
        (Some(dir), _) => dir.as_bstr(),
        (None, SearchSource::LoaderCache) => BStr::new("the loader cache"),
        (None, _) => BStr::new("the path itself, no search"),
    }
}
