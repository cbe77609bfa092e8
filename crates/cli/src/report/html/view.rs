//! The page: the results of a report, for the template.

use askama::Template;
use becalm_lib::compare::comparison::{Cell, Comparison, Row, RowKind, Verdict};
use becalm_lib::json;
use becalm_lib::report::Report;
use becalm_lib::report::start::{Snapshot, Try};
use becalm_lib::words::counted;

use crate::report::html::advice::{AdviceView, verdict};
use crate::report::html::format;
use crate::report::html::grid::Axes;
use crate::report::html::picture::{OF_DLOPEN, OF_START, Search};
use crate::report::html::timeline::{self, Timeline};
use crate::report::html::tree::{Step, steps};

/// The page.
#[derive(Debug, Template)]
#[template(path = "report.html")]
pub(crate) struct Page<'a> {
    program: String,
    first_line: Option<String>,
    verdict: String,
    /// Id, title, and the figure before and after.
    figures: Vec<(&'static str, &'static str, u64, Option<u64>)>,
    advice: Option<AdviceView<'a>>,
    has_dlopen: bool,
    sides: Vec<SnapshotView<'a>>,
    timeline: Timeline<'a>,
    comparison: Option<&'a Comparison>,
}

/// One program.
#[derive(Debug)]
struct SnapshotView<'a> {
    id: &'static str,
    heading: &'static str,
    start: &'a Snapshot,
    search: Search,
    dlopen: Search,
    tree: Vec<Step>,
}

impl<'a> Page<'a> {
    /// Makes the page of a report.
    pub(crate) fn of(report: &'a Report, comparison: Option<&'a Comparison>) -> Self {
        let sides = || sides(report);
        let axes = Axes::of(sides().flat_map(|(_, _, side)| &side.tries));
        let of_dlopen = Axes::of(sides().flat_map(|(_, _, side)| dlopens(side)));
        let name = report.before.path.rsplit('/').next().unwrap_or_default();
        let view = |(id, heading, start): (&'static str, _, &'a Snapshot)| SnapshotView {
            id,
            heading,
            start,
            search: Search::of(id.to_owned(), &start.tries, &axes, &OF_START),
            dlopen: Search::of(format!("dlopen-{id}"), dlopens(start), &of_dlopen, &OF_DLOPEN),
            tree: steps(&start.nodes),
        };
        Self {
            program: name.to_owned(),
            first_line: sides()
                .filter_map(|(_, _, side)| side.line())
                .reduce(|a, b| a + ". After: " + &b),
            verdict: verdict(name, &report.before),
            advice: report.before.advice.as_ref().map(AdviceView::of),
            figures: figures(report),
            has_dlopen: sides().any(|(_, _, side)| dlopen_misses(side) > 0),
            sides: sides().map(view).collect(),
            timeline: timeline::timeline(sides(), report.indexed.as_ref()),
            comparison,
        }
    }
}

/// Returns the snapshot before and, if there is one, the snapshot after.
fn sides(report: &Report) -> impl Iterator<Item = (&'static str, &'static str, &Snapshot)> + Clone {
    let heading = if report.after.is_some() { "Before" } else { "As it is" };
    let after = report.after.as_ref().map(|side| ("after", "After", side));
    [("before", heading, &report.before)].into_iter().chain(after)
}

/// Returns the probes of `dlopen` in the run of a program.
fn dlopens(side: &Snapshot) -> &[Try] {
    side.observed.as_ref().map_or(&[], |seen| &seen.dlopens)
}

fn dlopen_misses(side: &Snapshot) -> u64 {
    dlopens(side).iter().filter(|one| one.outcome.is_failed_call()).count() as u64
}

fn figures(report: &Report) -> Vec<(&'static str, &'static str, u64, Option<u64>)> {
    let figure = |id, title, of: fn(&Snapshot) -> u64| {
        (id, title, of(&report.before), report.after.as_ref().map(of))
    };
    let mut figures = vec![
        figure("misses", "misses", |side| side.storm.misses()),
        figure("missed_opens", "failing opens", |side| side.storm.missed_opens),
        figure("missed_stats", "failing stats", |side| side.storm.missed_stats),
        figure("hwcaps_misses", "misses in hwcaps subdirectories", |side| side.storm.hwcaps_misses),
        figure("search_dirs", "search directories", |side| side.storm.search_dirs),
        figure("objects", "objects loaded", |side| side.storm.objects),
    ];
    if sides(report).any(|(_, _, side)| dlopen_misses(side) > 0) {
        figures.push(figure("dlopen_misses", "misses in dlopen, after the start", dlopen_misses));
    }
    figures
}

/// Describes the change of a count.
fn change(before: &u64, after: &u64) -> String {
    match (*before, *after) {
        (before, after) if before == after => "unchanged".to_owned(),
        (0, _) => "more".to_owned(),
        (_, 0) => "all gone".to_owned(),
        (before, after) => {
            let percent = 100.0 * (after as f64 - before as f64) / before as f64;
            format!("{percent:+.0}\u{a0}%").replace('-', "−")
        }
    }
}

/// True for the first row of properties, unless it is the first of all.
fn is_first_property(table: &Comparison, at: &usize) -> bool {
    let first = table.rows.iter().position(|row| row.kind == RowKind::Property);
    first == Some(*at) && *at > 0
}

/// Returns style, text and note of each cell. A row with too few or too many cells must not shift the others.
fn cells(row: &Row, columns: &usize) -> Vec<(&'static str, String, Option<String>)> {
    let missing = Cell::default();
    let cells = row.cells.iter().chain(std::iter::repeat(&missing)).take(*columns);
    let cells = cells.map(|cell| {
        let (style, word) = match cell.verdict {
            Some(Verdict::Yes) => ("yes", "yes"),
            Some(Verdict::No) => ("no", "no"),
            Some(Verdict::NotTried) => ("untried", "not tried"),
            Some(Verdict::Other) => ("other", "see note"),
            None => ("", "–"),
        };
        let text = match (cell.text.is_empty(), cell.value) {
            (false, _) => format::shown(&cell.text),
            (true, Some(value)) => value.to_string(),
            (true, None) => word.to_owned(),
        };
        (style, text, cell.note.as_ref().map(format::shown))
    });
    cells.collect()
}
