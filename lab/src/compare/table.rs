//! Table of the measurements and trials, with the strategies side by side.

use becalm_host::bench::stats::Ratio;
use becalm_host::bench::{Measured, Timed};

use crate::compare::args::CompareArgs;
use crate::compare::column::{Column, Stock};
use crate::compare::figures::Figures;
use crate::compare::kind::Kind;
use crate::compare::outcome::Outcome;
use becalm_lib::advice::Scope;
use becalm_lib::compare::comparison::{Cell, Comparison, Row, RowKind, SAME, Verdict};
use becalm_lib::compare::program::Program;
use becalm_lib::escape::shown;
use becalm_lib::loaded_index::IndexedBindings;
use becalm_lib::path::path_bytes;
use becalm_lib::relocations::Relocations;
use becalm_lib::words::{grouped, milliseconds};

/// Makes the table.
pub(super) fn made(
    options: &CompareArgs,
    program: &Program,
    stock: &Stock,
    outcomes: &[Outcome],
    measured: &Measured,
) -> Comparison {
    let mut rows = figures(outcomes);
    rows.extend(relocation(outcomes));
    rows.extend(times(outcomes, measured));
    rows.extend(costs(outcomes));
    rows.extend(shown_by_the_program(outcomes, stock));
    Comparison {
        program: shown(path_bytes(&program.path).as_ref()),
        columns: outcomes.iter().map(|outcome| outcome.kind.name()).collect(),
        rows,
        notes: [scopes(outcomes), notes(options, program, measured)].concat(),
    }
}

pub(super) fn row(id: &str, title: &str, kind: RowKind, cells: Vec<Cell>) -> Row {
    Row { id: id.to_owned(), title: title.to_owned(), kind, cells }
}

/// Returns the cell of a number.
fn number(value: u64) -> Cell {
    Cell { value: Some(value as f64), text: grouped(value), ..Cell::default() }
}

/// Returns the cell of a number that was not measured, with the reason.
fn none(why: &str) -> Cell {
    Cell { text: "–".to_owned(), note: Some(why.to_owned()), ..Cell::default() }
}

/// Returns the cell of a verdict.
pub(super) fn answer(verdict: Verdict, note: Option<String>) -> Cell {
    let text = match verdict {
        Verdict::Yes => "yes",
        Verdict::No => "no",
        Verdict::NotTried => "not tried",
        Verdict::Other => "see note",
    };
    Cell { verdict: Some(verdict), text: text.to_owned(), note, ..Cell::default() }
}

fn figures(outcomes: &[Outcome]) -> Vec<Row> {
    let of = |id: &str, title: &str, value: &dyn Fn(&Figures) -> u64| {
        let cell = |outcome: &Outcome| match &outcome.figures {
            Ok(figures) => number(value(figures)),
            Err(why) => none(why),
        };
        row(id, title, RowKind::Measure, outcomes.iter().map(cell).collect())
    };
    vec![
        of("objects", "libraries loaded", &|figures| figures.objects.len() as u64),
        of("missed-opens", "missed opens", &|figures| figures.missed_opens),
        of("missed-stats", "missed stats", &|figures| figures.missed_stats),
        of("hwcaps-misses", "of both, for hwcaps subdirectories", &|figures| figures.hwcaps),
        of("program-misses", "misses after the entry point", &|figures| figures.program_misses),
        of("program-repeated", "lookups repeated after it", &|figures| figures.program_repeated),
    ]
}

/// Returns the rows of symbol lookup.
fn relocation(outcomes: &[Outcome]) -> Vec<Row> {
    let of = |id: &str, title: &str, value: &dyn Fn(&Outcome, &Relocations) -> Cell| {
        let cell = |outcome: &Outcome| match &outcome.figures {
            Ok(Figures { relocations: Some(relocations), .. }) => value(outcome, relocations),
            Ok(_) => none("no loader tells of it (LD_DEBUG=statistics)"),
            Err(why) => none(why),
        };
        row(id, title, RowKind::Measure, outcomes.iter().map(cell).collect())
    };
    let time = |_: &Outcome, relocations: &Relocations| match relocations.ns {
        Some(ns) => {
            let ns = ns as f64;
            Cell { value: Some(ns / 1e6), text: milliseconds(ns as u64), ..Cell::default() }
        }
        None => none("glibc does not time itself on this machine"),
    };
    vec![
        of("bindings-applied", "symbols bound by the index", &bound),
        of("symbol-lookups", "symbols looked up", &|_, found| number(found.lookups)),
        of("relocation-ms", "relocation, median, ms", &time),
    ]
}

/// Returns the cell of the bindings that an index applied.
fn bound(outcome: &Outcome, found: &Relocations) -> Cell {
    let why_not = outcome.column.as_ref().ok().and_then(|column| column.not_bound.as_ref());
    match (found.bindings, &found.not_applied) {
        (Some(IndexedBindings { bound, relocations }), _) => {
            let text = format!("{} of {}", grouped(bound.into()), grouped(relocations.into()));
            Cell { value: Some(f64::from(bound)), text, ..Cell::default() }
        }
        (None, Some(why)) => none(&format!("the index's bindings are not applied: {why}")),
        (None, None) => {
            let note = why_not.map(|why| format!("the index has no bindings of it: {why}"));
            Cell { text: "–".to_owned(), note, ..Cell::default() }
        }
    }
}

fn times(outcomes: &[Outcome], measured: &Measured) -> Vec<Row> {
    let timed = |outcome: &Outcome| -> Option<&Timed> {
        let name = outcome.kind.name();
        let is_control = outcome.kind == Kind::Control;
        let mut all = measured.variants.iter();
        // The control is run twice a round; its ratio is the one of the second run.
        all.find(|timed| timed.name == name && timed.control == is_control)
    };
    let missing =
        |outcome: &Outcome| none(outcome.figures.as_ref().err().map_or("", String::as_str));
    let start = |outcome: &Outcome| match timed(outcome) {
        Some(timed) => {
            let median = timed.spread.median;
            Cell { value: Some(median / 1e6), text: milliseconds(median as u64), ..Cell::default() }
        }
        None => missing(outcome),
    };
    let ratio = |outcome: &Outcome| match timed(outcome).and_then(|timed| timed.ratio) {
        Some(ratio) => {
            let (text, _) = ratio_parts(ratio);
            Cell { value: Some(ratio.ratio), text, ..Cell::default() }
        }
        None => missing(outcome),
    };
    let interval = |outcome: &Outcome| match timed(outcome)
        .and_then(|timed| timed.ratio)
        .map(|ratio| ratio_parts(ratio).1)
    {
        Some(Some(text)) => Cell { text, ..Cell::default() },
        Some(None) => none("fewer than 6 rounds"),
        None => missing(outcome),
    };
    let all = |of: &dyn Fn(&Outcome) -> Cell| outcomes.iter().map(of).collect();
    vec![
        row("start-ms", "whole start, median, ms", RowKind::Measure, all(&start)),
        row("start-ratio", "whole start, times the control", RowKind::Measure, all(&ratio)),
        row("start-interval", "its 95 % interval", RowKind::Measure, all(&interval)),
    ]
}

fn costs(outcomes: &[Outcome]) -> Vec<Row> {
    let of = |id: &str, title: &str, cell: &dyn Fn(&Column) -> Cell| {
        let cell = |outcome: &Outcome| match &outcome.column {
            Ok(column) => Cell { note: column.remark.clone(), ..cell(column) },
            Err(why) => none(why),
        };
        row(id, title, RowKind::Measure, outcomes.iter().map(cell).collect())
    };
    let bytes = |column: &Column| {
        let bytes = column.changes.bytes;
        let sign = if bytes < 0 { "-" } else { "" };
        let text = format!("{sign}{}", grouped(bytes.unsigned_abs()));
        Cell { value: Some(bytes as f64), text, ..Cell::default() }
    };
    let took = |column: &Column| {
        let ns = column.applied.as_secs_f64() * 1e9;
        match column.kind {
            Kind::Strategy(_) => {
                Cell { value: Some(ns / 1e6), text: milliseconds(ns as u64), ..Cell::default() }
            }
            _ => Cell { text: "–".to_owned(), ..Cell::default() },
        }
    };
    vec![
        of("bytes-added", "bytes added", &bytes),
        of("files-changed", "files changed", &|column| number(column.changes.changed as u64)),
        of("files-made", "files and links made", &|column| number(column.changes.made as u64)),
        of("apply-ms", "time to apply, ms", &took),
    ]
}

/// Returns the rows of the properties that are tested with the program itself.
fn shown_by_the_program(outcomes: &[Outcome], stock: &Stock) -> Vec<Row> {
    let control = outcomes.first().and_then(|outcome| outcome.figures.as_ref().ok());
    let same = |outcome: &Outcome| match (&outcome.figures, outcome.kind, control) {
        (_, Kind::Static, _) => {
            answer(Verdict::Other, Some("it has its libraries in itself".to_owned()))
        }
        (Ok(figures), _, Some(control)) => same_objects(figures, control),
        (Err(why), ..) if outcome.column.is_err() || outcome.kind.wants_patched_loader() => {
            answer(Verdict::NotTried, Some(why.clone()))
        }
        (Err(why), ..) => answer(Verdict::No, Some(format!("it does not start: {why}"))),
        (Ok(_), _, None) => answer(Verdict::NotTried, None),
    };
    let cheap = |outcome: &Outcome| match &outcome.column {
        Ok(column) => cheap(column.changes.bytes, stock.bytes),
        Err(why) => answer(Verdict::NotTried, Some(why.clone())),
    };
    let undo = |outcome: &Outcome| match (&outcome.undone, outcome.kind) {
        (Some(None), _) => answer(Verdict::Yes, None),
        (Some(Some(left)), _) => answer(Verdict::No, Some(left.clone())),
        (None, kind) if kind.is_index() => {
            answer(Verdict::Yes, Some("no file of the store was changed".to_owned()))
        }
        (None, Kind::Strategy(_)) => {
            answer(Verdict::NotTried, outcome.column.as_ref().err().cloned())
        }
        (None, _) => answer(Verdict::NotTried, Some("nothing was done".to_owned())),
    };
    let all = |of: &dyn Fn(&Outcome) -> Cell| outcomes.iter().map(of).collect();
    vec![
        row(SAME, "loads the same, in the same order", RowKind::Property, all(&same)),
        row("cheap", "cheap on disk (below 5 %)", RowKind::Property, all(&cheap)),
        row("undo", "undo gives the same bytes", RowKind::Property, all(&undo)),
    ]
}

/// Returns the verdict on a start: yes if it loads the same objects as the untouched program.
fn same_objects(figures: &Figures, control: &Figures) -> Cell {
    let name = |path: &std::path::PathBuf| {
        shown(path_bytes(path.file_name().unwrap_or_default().as_ref()).as_ref())
    };
    let lacks = |of: &Figures, from: &Figures| {
        from.objects.iter().find(|path| !of.objects.contains(path)).map(name)
    };
    let what = match (lacks(figures, control), lacks(control, figures)) {
        (None, None) if figures.objects == control.objects => None,
        (None, None) => Some("the same, in another order".to_owned()),
        (Some(lost), None) => Some(format!("{lost} is not loaded")),
        (None, Some(more)) => Some(format!("{more} is loaded as well")),
        (Some(lost), Some(other)) => Some(format!("{other} instead of {lost}")),
    };
    match what {
        None => answer(Verdict::Yes, None),
        what => answer(Verdict::No, what),
    }
}

/// Returns the verdict on the disk space: yes if the added bytes are below 5 % of the packages.
fn cheap(added: i64, of: u64) -> Cell {
    let share = added as f64 / (of.max(1) as f64);
    let verdict = if share < 0.05 { Verdict::Yes } else { Verdict::No };
    answer(verdict, Some(format!("{:.2} % of the packages' bytes", share * 100.0)))
}

/// Returns a sentence for each scope, with the strategies that change files in it.
fn scopes(outcomes: &[Outcome]) -> Vec<String> {
    let of = |scope: Scope, text: &str| {
        let kinds = outcomes.iter().map(|outcome| outcome.kind);
        let names = kinds.filter(|kind| kind.scope() == Some(scope)).map(|kind| match kind {
            kind if kind.is_of_closure() => format!("{} (--closure)", kind.name()),
            kind => kind.name(),
        });
        let names: Vec<String> = names.collect();
        (!names.is_empty()).then(|| format!("{text}: {}", names.join(", ")))
    };
    let all = [
        of(Scope::Closure, "changed in the program and its libraries"),
        of(Scope::Program, "changed in the program alone"),
        of(Scope::Nothing, "changed in no file"),
    ];
    all.into_iter().flatten().collect()
}

fn notes(options: &CompareArgs, program: &Program, measured: &Measured) -> Vec<String> {
    let mut notes = vec![
        format!("{} rounds, warm, in an order drawn anew for each", measured.rounds),
        format!(
            "{} objects in {} packages; {}",
            program.objects.len(),
            program.packages.len(),
            program.facts.libc
        ),
    ];
    if let Some(store) = &program.assumed_store {
        let store = shown(path_bytes(store).as_ref());
        notes.push(format!("{store} is taken as the program's store; --store names another"));
    }
    if program.outside > 0 {
        notes.push(format!(
            "{} of the objects lie in no store and were left as they are",
            program.outside
        ));
    }
    if options.loader.is_some() {
        notes.push(
            "note and ldcache ran on the loader that was given, as did the control named patched; \
             its share in their times is that control's"
                .to_owned(),
        );
    }
    let control = measured.variants.iter().find(|timed| timed.control);
    if control.and_then(|timed| timed.ratio).is_some_and(|r| r.interval.is_some() && !r.holds_one())
    {
        notes.push(
            "the control differs from itself: the machine was disturbed; measure again".to_owned(),
        );
    }
    notes
}

/// Returns a ratio and, if there is one, its interval.
fn ratio_parts(ratio: Ratio) -> (String, Option<String>) {
    let digits = if ratio.ratio < 0.1 { 3 } else { 2 };
    let interval = ratio.interval.map(|(from, to)| format!("{from:.digits$}–{to:.digits$}"));
    (format!("{:.digits$}", ratio.ratio), interval)
}
