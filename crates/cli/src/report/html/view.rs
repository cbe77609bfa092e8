//! Conversion of a report into the text and numbers of the page.

use std::time::Duration;

use askama::Template;
use becalm_core::cost::SearchCost;
use becalm_lib::escape::shown;
use becalm_lib::trace::report::FileWaits;
use becalm_lib::words::{counted, grouped, milliseconds, seconds};

use crate::report::html::advice::{AdviceView, verdict};
use crate::report::html::dlopen::{self, Opened};
use crate::report::html::format::percent;
use crate::report::html::grid::{Axes, Grid};
use crate::report::html::picture::{Picture, Worst, worst};
use crate::report::html::tree::{Step, steps};
use becalm_lib::compare::comparison::{Cell, Comparison, RowKind, Verdict};
use becalm_lib::report::Report;
use becalm_lib::report::start::{Observed, Relocation, Snapshot};

/// Files of waits for pages that are listed.
const FILES: usize = 20;

/// The page.
#[derive(Debug, Template)]
#[template(path = "report.html")]
pub(crate) struct Page {
    title: String,
    program: String,
    version: &'static str,
    style: &'static str,
    script: &'static str,
    first_line: Option<String>,
    verdict: String,
    figures: Vec<Figure>,
    advice: Option<AdviceView>,
    has_after: bool,
    sides: Vec<SnapshotView>,
    timeline: Vec<Lane>,
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
struct SnapshotView {
    id: &'static str,
    heading: &'static str,
    path: String,
    about: Vec<String>,
    how: &'static str,
    faults: Vec<String>,
    picture: Option<Picture>,
    directories: Vec<Worst>,
    needed: Vec<Worst>,
    tree: Vec<Step>,
}

/// The timeline of one program.
#[derive(Debug)]
struct Lane {
    id: &'static str,
    heading: &'static str,
    why_not: Option<String>,
    command: String,
    total: String,
    /// The waits for pages in one line; empty if there are none.
    waited: String,
    files: Vec<FileRow>,
    more_files: usize,
    has_relocation: bool,
    parts: Vec<Part>,
    classes: Vec<(String, String)>,
    repeated: Vec<(String, String)>,
    notes: Vec<String>,
}

/// A file for whose pages the start waited.
#[derive(Debug)]
struct FileRow {
    path: String,
    waits: String,
    ms: String,
}

/// A part of the timeline.
#[derive(Debug)]
struct Part {
    style: &'static str,
    title: String,
    ms: String,
    /// Share of the longest timeline, in per cent.
    width: String,
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

impl Page {
    /// Makes the page of a report.
    pub(crate) fn of(report: &Report, comparison: Option<&Comparison>) -> Self {
        let sides = || sides(report);
        let axes = Axes::of(sides().flat_map(|(_, _, side)| &side.tries));
        let name = report.before.path.rsplit('/').next().unwrap_or_default();
        Self {
            title: format!("{name}: the loader's search"),
            program: name.to_owned(),
            version: env!("CARGO_PKG_VERSION"),
            style: include_str!("report.css"),
            script: include_str!("report.js"),
            first_line: report.before.line(),
            verdict: verdict(name, &report.before),
            advice: report.before.advice.as_ref().map(AdviceView::of),
            figures: figures(report),
            has_after: report.after.is_some(),
            sides: sides()
                .map(|(id, heading, side)| SnapshotView::of(id, heading, side, &axes))
                .collect(),
            timeline: timeline(report),
            opened: dlopen::views(&sides().collect::<Vec<_>>()),
            comparison: comparison.map(Table::of),
        }
    }
}

/// Returns the snapshot before and, if there is one, the snapshot after.
fn sides(report: &Report) -> impl Iterator<Item = (&'static str, &'static str, &Snapshot)> {
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

impl SnapshotView {
    fn of(id: &'static str, heading: &'static str, side: &Snapshot, axes: &Axes<'_>) -> Self {
        let grid = Grid::of(&side.tries, axes);
        let columns = grid.columns.iter().map(|column| (column.name.as_str(), column.misses));
        let rows = grid.rows.iter().flatten().map(|row| (row.needed.as_str(), row.misses));
        Self {
            id,
            heading,
            path: side.path.clone(),
            about: side.about.clone(),
            how: if side.is_record { "observed" } else { "predicted" },
            faults: side.faults.clone(),
            directories: worst(columns.collect()),
            needed: worst(rows.collect()),
            picture: grid.rows.iter().any(Option::is_some).then(|| Picture::of(&grid, axes)),
            tree: steps(&side.nodes),
        }
    }
}

fn timeline(report: &Report) -> Vec<Lane> {
    let total = |seen: &Observed| seen.loader_ns.saturating_add(seen.program_ns);
    let seen = sides(report).filter_map(|(_, _, side)| side.observed.as_ref().ok());
    let longest = seen.map(total).max().unwrap_or(0);
    sides(report)
        .map(|(id, heading, side)| match &side.observed {
            Ok(seen) => Lane::of(id, heading, seen, &side.storm, longest),
            Err(why) => Lane::without(id, heading, &why.to_string()),
        })
        .collect()
}

impl Lane {
    fn of(
        id: &'static str,
        heading: &'static str,
        seen: &Observed,
        storm: &SearchCost,
        longest: u64,
    ) -> Self {
        let part = |style, title: &str, ns: u64| Part {
            style,
            title: title.to_owned(),
            ms: milliseconds(ns as f64),
            width: percent(ns, longest),
        };
        let relocation = seen.relocation.unwrap_or_default();
        let loader_rest = seen.loader_ns.saturating_sub(seen.storm_ns + relocation.ns);
        let program_rest = seen.program_ns.saturating_sub(seen.dlopen_ns);
        let parts = [
            part("storm", "loader: failing opens and stats", seen.storm_ns),
            part("relocation", &symbols(relocation), relocation.ns),
            part("loader", "loader: the rest", loader_rest),
            part("dlopen", "dlopen: failing opens and stats", seen.dlopen_ns),
            part("program", "program, from its entry point on", program_rest),
        ];
        let parts = parts.into_iter().filter(|part| match part.style {
            "dlopen" => seen.dlopen_ns > 0,
            "relocation" => seen.relocation.is_some(),
            _ => true,
        });
        let mut notes = seen.notes.clone();
        if seen.as_predicted == Some(false) {
            notes.push(format!(
                "the run made {} failing opens and {} failing stats where {} and {} were predicted",
                grouped(seen.storm.missed_opens),
                grouped(seen.storm.missed_stats),
                grouped(storm.missed_opens),
                grouped(storm.missed_stats),
            ));
        }
        let files = seen.pages.as_ref().map_or(&[][..], |pages| &pages.files);
        Self {
            id,
            heading,
            waited: waited(seen).unwrap_or_default(),
            files: files.iter().take(FILES).map(FileRow::of).collect(),
            more_files: files.len().saturating_sub(FILES),
            why_not: None,
            command: seen.command.clone(),
            total: milliseconds(seen.loader_ns.saturating_add(seen.program_ns) as f64),
            has_relocation: seen.relocation.is_some(),
            parts: parts.collect(),
            classes: counts(&seen.classes),
            repeated: counts(&seen.repeated),
            notes,
        }
    }

    fn without(id: &'static str, heading: &'static str, why: &str) -> Self {
        Self {
            id,
            heading,
            why_not: Some(why.to_owned()),
            command: String::new(),
            total: String::new(),
            waited: String::new(),
            files: Vec::new(),
            more_files: 0,
            has_relocation: false,
            parts: Vec::new(),
            classes: Vec::new(),
            repeated: Vec::new(),
            notes: Vec::new(),
        }
    }
}

/// Describes the waits for pages: "first start 0.24 s: 0.18 s waiting for 46 pages".
fn waited(seen: &Observed) -> Option<String> {
    let pages = seen.pages.as_ref().filter(|pages| pages.waits > 0)?;
    let total = Duration::from_nanos(seen.loader_ns.saturating_add(seen.program_ns)).as_secs_f64();
    let waits = counted(pages.waits, "page", "pages");
    Some(format!("first start {}: {} waiting for {waits}", seconds(total), seconds(pages.seconds)))
}

impl FileRow {
    fn of(file: &FileWaits) -> Self {
        Self {
            path: shown(file.path.as_ref()),
            waits: grouped(file.waits),
            ms: milliseconds(file.seconds * 1e9),
        }
    }
}

/// Returns the title of relocation: the numbers of symbols looked up and bound.
fn symbols(relocation: Relocation) -> String {
    let lookups = counted(relocation.lookups, "symbol looked up", "symbols looked up");
    match relocation.bound {
        0 => format!("loader: relocation, {lookups}"),
        bound => {
            let bound = grouped(bound.into());
            format!("loader: relocation, {lookups}, {bound} bound from the index")
        }
    }
}

fn counts(classes: &[(String, u64)]) -> Vec<(String, String)> {
    classes.iter().map(|(name, count)| (name.clone(), grouped(*count))).collect()
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
