//! Conversion of a report into the text and numbers of the page.

use askama::Template;
use becalm_lib::words::grouped;

use crate::report::html::advice::{AdviceView, verdict};
use crate::report::html::dlopen::{self, Opened};
use crate::report::html::grid::{Axes, Grid};
use crate::report::html::picture::{List, Picture, lists};
use crate::report::html::timeline::{Timeline, timeline};
use crate::report::html::tree::{Step, steps};
use becalm_lib::compare::comparison::{Cell, Comparison, RowKind, Verdict};
use becalm_lib::report::Report;
use becalm_lib::report::start::Snapshot;

/// The page.
#[derive(Debug, Template)]
#[template(path = "report.html")]
pub(crate) struct Page<'a> {
    title: String,
    program: String,
    version: &'static str,
    style: &'static str,
    script: &'static str,
    first_line: Option<String>,
    verdict: String,
    figures: Vec<Figure>,
    advice: Option<AdviceView<'a>>,
    has_after: bool,
    sides: Vec<SnapshotView<'a>>,
    timeline: Timeline,
    opened: Vec<Opened>,
    comparison: Option<Table>,
}

/// One figure, before and after.
#[derive(Debug)]
struct Figure {
    id: &'static str,
    title: &'static str,
    before: String,
    after: Option<String>,
    change: String,
}

/// One program.
#[derive(Debug)]
struct SnapshotView<'a> {
    id: &'static str,
    heading: &'static str,
    start: &'a Snapshot,
    picture: Option<Picture>,
    lists: Vec<List>,
    tree: Vec<Step>,
}

/// The table of a comparison.
#[derive(Debug)]
struct Table {
    program: String,
    columns: Vec<String>,
    rows: Vec<TableRow>,
    notes: Vec<String>,
}

#[derive(Debug)]
struct TableRow {
    title: String,
    is_first_property: bool,
    cells: Vec<TableCell>,
}

#[derive(Debug)]
struct TableCell {
    style: &'static str,
    text: String,
    note: Option<String>,
}

impl<'a> Page<'a> {
    /// Makes the page of a report.
    pub(crate) fn of(report: &'a Report, comparison: Option<&Comparison>) -> Self {
        let sides = || sides(report);
        let axes = Axes::of(sides().flat_map(|(_, _, side)| &side.tries));
        let name = report.before.path.rsplit('/').next().unwrap_or_default();
        Self {
            title: format!("{name}: its start"),
            program: name.to_owned(),
            version: env!("CARGO_PKG_VERSION"),
            style: include_str!("report.css"),
            script: include_str!("report.js"),
            first_line: sides()
                .filter_map(|(_, _, side)| side.line())
                .reduce(|a, b| a + ". After: " + &b),
            verdict: verdict(name, &report.before),
            advice: report.before.advice.as_ref().map(AdviceView::of),
            figures: figures(report),
            has_after: report.after.is_some(),
            sides: sides()
                .map(|(id, heading, side)| SnapshotView::of(id, heading, side, &axes))
                .collect(),
            timeline: timeline(sides(), report.indexed.as_ref()),
            opened: dlopen::views(&sides().collect::<Vec<_>>()),
            comparison: comparison.map(Table::of),
        }
    }
}

/// Returns the snapshot before and, if there is one, the snapshot after.
fn sides(report: &Report) -> impl Iterator<Item = (&'static str, &'static str, &Snapshot)> + Clone {
    let heading = if report.after.is_some() { "Before" } else { "As it is" };
    let after = report.after.as_ref().map(|side| ("after", "After", side));
    [("before", heading, &report.before)].into_iter().chain(after)
}

fn figures(report: &Report) -> Vec<Figure> {
    let figure = |id, title, of: fn(&Snapshot) -> u64| {
        let (before, after) = (of(&report.before), report.after.as_ref().map(of));
        Figure {
            id,
            title,
            before: grouped(before),
            after: after.map(grouped),
            change: after.map(|after| change(before, after)).unwrap_or_default(),
        }
    };
    let mut figures = vec![
        figure("misses", "misses", |side| side.storm.misses()),
        figure("missed_opens", "failing opens", |side| side.storm.missed_opens),
        figure("missed_stats", "failing stats", |side| side.storm.missed_stats),
        figure("hwcaps_misses", "misses in hwcaps subdirectories", |side| side.storm.hwcaps_misses),
        figure("search_dirs", "search directories", |side| side.storm.search_dirs),
        figure("objects", "objects loaded", |side| side.storm.objects),
    ];
    if sides(report).any(|(_, _, side)| dlopen::misses(side) > 0) {
        figures.push(figure("dlopen_misses", "misses in dlopen, after the start", dlopen::misses));
    }
    figures
}

/// Describes the change of a count.
fn change(before: u64, after: u64) -> String {
    match (before, after) {
        (before, after) if before == after => "unchanged".to_owned(),
        (0, _) => "more".to_owned(),
        (_, 0) => "all gone".to_owned(),
        (before, after) => {
            let percent = 100.0 * (after as f64 - before as f64) / before as f64;
            format!("{percent:+.0}\u{a0}%").replace('-', "−")
        }
    }
}

impl<'a> SnapshotView<'a> {
    fn of(id: &'static str, heading: &'static str, start: &'a Snapshot, axes: &Axes<'_>) -> Self {
        let grid = Grid::of(&start.tries, axes);
        let columns = axes.dirs.iter().zip(&grid.columns).map(|(name, of)| (name.as_str(), of.0));
        let rows = grid.rows.iter().flatten().map(|row| (row.needed.as_str(), row.misses));
        Self {
            id,
            heading,
            start,
            lists: lists([
                ("Directories that cost most", columns.collect()),
                ("Needed strings that cost most", rows.collect()),
            ]),
            picture: grid.rows.iter().any(Option::is_some).then(|| Picture::of(&grid, axes)),
            tree: steps(&start.nodes),
        }
    }
}

impl Table {
    fn of(comparison: &Comparison) -> Self {
        let text = |text: &String| becalm_lib::escape::shown(text.as_bytes().into());
        let first = comparison.rows.iter().position(|row| row.kind == RowKind::Property);
        let width = comparison.columns.len();
        let rows = comparison.rows.iter().enumerate().map(|(at, row)| TableRow {
            title: text(&row.title),
            is_first_property: Some(at) == first && at > 0,
            // A row with too few or too many cells must not shift the others.
            cells: (0..width)
                .map(|column| TableCell::of(row.cells.get(column).unwrap_or(&Cell::default())))
                .collect(),
        });
        Self {
            program: text(&comparison.program),
            columns: comparison.columns.iter().map(text).collect(),
            rows: rows.collect(),
            notes: comparison.notes.iter().map(text).collect(),
        }
    }
}

impl TableCell {
    fn of(cell: &Cell) -> Self {
        let own = becalm_lib::escape::shown(cell.text.as_bytes().into());
        let (style, word) = match cell.verdict {
            Some(Verdict::Yes) => ("yes", "yes"),
            Some(Verdict::No) => ("no", "no"),
            Some(Verdict::NotTried) => ("untried", "not tried"),
            Some(Verdict::Other) => ("other", "see note"),
            None => ("", "–"),
        };
        Self {
            style,
            text: match (own.is_empty(), cell.value) {
                (false, _) => own,
                (true, Some(value)) => value.to_string(),
                (true, None) => word.to_owned(),
            },
            note: cell.note.as_ref().map(|note| becalm_lib::escape::shown(note.as_bytes().into())),
        }
    }
}
