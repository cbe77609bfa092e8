//! Table of the measurements and trials, with the strategies side by side.

use becalm_host::bench::stats::Ratio;
use becalm_host::bench::{Measured, Timed};

use crate::compare::args::CompareArgs;
use crate::compare::column::{Column, Stock};
use crate::compare::figures::Figures;
use crate::compare::kind::Kind;
use crate::compare::outcome::Outcome;
use crate::compare::placed::Program;
use becalm_lib::advice::Scope;
use becalm_lib::compare::comparison::{Cell, Comparison, Row, RowKind, SAME, Verdict};
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
    let measure = |&(id, title, of): &Measure| {
        let cells =
            outcomes.iter().map(|it| of(it, measured).unwrap_or_else(|why| dash(Some(why))));
        row(id, title, RowKind::Measure, cells.collect())
    };
    let mut rows: Vec<Row> = MEASURES.iter().map(measure).collect();
    rows.extend(shown_by_the_program(outcomes, stock));
    Comparison {
        program: shown(path_bytes(&program.start.path).as_ref()),
        columns: outcomes.iter().map(|outcome| outcome.kind.name()).collect(),
        rows,
        notes: [scopes(outcomes), notes(options, program, measured)].concat(),
    }
}

pub(super) fn row(id: &str, title: &str, kind: RowKind, cells: Vec<Cell>) -> Row {
    Row { id: id.to_owned(), title: title.to_owned(), kind, cells }
}

/// Returns the cell of a value.
fn value(value: f64, text: String) -> Cell {
    Cell { value: Some(value), text, ..Cell::default() }
}

/// Returns the cell of a number.
fn number(number: u64) -> Cell {
    value(number as f64, grouped(number))
}

/// Returns the cell of a time.
fn time(ns: f64) -> Cell {
    value(ns / 1e6, milliseconds(ns as u64))
}

/// Returns the cell of a value that there is not, with a note.
fn dash(note: Option<String>) -> Cell {
    Cell { text: "–".to_owned(), note, ..Cell::default() }
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

/// A row of measurements: its identifier, its title, and the cell of a column, or the reason why it has none.
type Measure = (&'static str, &'static str, fn(&Outcome, &Measured) -> Result<Cell, String>);

const MEASURES: [Measure; 16] = [
    ("objects", "libraries loaded", |it, _| Ok(number(figures(it)?.objects.len() as u64))),
    ("missed-opens", "missed opens", |it, _| Ok(number(figures(it)?.seen.storm.missed_opens))),
    ("missed-stats", "missed stats", |it, _| Ok(number(figures(it)?.seen.storm.missed_stats))),
    ("hwcaps-misses", "of both, for hwcaps subdirectories", |it, _| {
        Ok(number(figures(it)?.hwcaps))
    }),
    ("program-misses", "misses after the entry point", |it, _| {
        Ok(number(figures(it)?.seen.program.missed.total()))
    }),
    ("program-repeated", "lookups repeated after it", |it, _| {
        Ok(number(figures(it)?.seen.classes.iter().map(|class| class.repeated.count).sum()))
    }),
    ("bindings-applied", "symbols bound by the index", |it, _| bound(it, relocations(it)?)),
    ("symbol-lookups", "symbols looked up", |it, _| Ok(number(relocations(it)?.lookups))),
    ("relocation-ms", "relocation, median, ms", |it, _| match relocations(it)?.ns {
        Some(ns) => Ok(time(ns as f64)),
        None => Err("glibc does not time itself on this machine".to_owned()),
    }),
    ("start-ms", "whole start, median, ms", |it, all| Ok(time(timed(it, all)?.spread.median))),
    ("start-ratio", "whole start, times the control", |it, all| {
        let ratio = timed(it, all)?.ratio.ok_or_else(String::new)?;
        Ok(value(ratio.ratio, ratio_parts(ratio).0))
    }),
    ("start-interval", "its 95 % interval", |it, all| {
        let (_, interval) = ratio_parts(timed(it, all)?.ratio.ok_or_else(String::new)?);
        let text = interval.ok_or_else(|| "fewer than 6 rounds".to_owned())?;
        Ok(Cell { text, ..Cell::default() })
    }),
    ("bytes-added", "bytes added", |it, _| {
        cost(it, |column| {
            let bytes = column.changes.bytes;
            let sign = if bytes < 0 { "-" } else { "" };
            value(bytes as f64, format!("{sign}{}", grouped(bytes.unsigned_abs())))
        })
    }),
    ("files-changed", "files changed", |it, _| {
        cost(it, |column| number(column.changes.changed as u64))
    }),
    ("files-made", "files and links made", |it, _| {
        cost(it, |column| number(column.changes.made as u64))
    }),
    ("apply-ms", "time to apply, ms", |it, _| {
        cost(it, |column| match column.kind.strategy() {
            Some(_) => time(column.applied.as_secs_f64() * 1e9),
            None => dash(None),
        })
    }),
];

fn figures(outcome: &Outcome) -> Result<&Figures, String> {
    outcome.figures.as_ref().map_err(String::clone)
}

fn relocations(outcome: &Outcome) -> Result<&Relocations, String> {
    let found = figures(outcome)?.seen.relocations.as_ref();
    found.ok_or_else(|| "no loader tells of it (LD_DEBUG=statistics)".to_owned())
}

fn timed<'a>(outcome: &Outcome, all: &'a Measured) -> Result<&'a Timed, String> {
    let (name, is_control) = (outcome.kind.name(), outcome.kind == Kind::Control);
    // The control is run twice a round; its ratio is the one of the second run.
    let is_it = |timed: &&Timed| timed.name == name && timed.control == is_control;
    let missing = || outcome.figures.as_ref().err().cloned().unwrap_or_default();
    all.variants.iter().find(is_it).ok_or_else(missing)
}

/// Returns the cell of a column, with the remark on its strategy.
fn cost(outcome: &Outcome, cell: impl Fn(&Column) -> Cell) -> Result<Cell, String> {
    let column = outcome.column.as_ref().map_err(String::clone)?;
    Ok(Cell { note: column.done.remark.clone(), ..cell(column) })
}

/// Returns the cell of the bindings that an index applied.
fn bound(outcome: &Outcome, found: &Relocations) -> Result<Cell, String> {
    let why_not = outcome.column.as_ref().ok().and_then(|column| column.done.not_bound.as_ref());
    match (found.bindings, &found.not_applied) {
        (Some(IndexedBindings { bound, relocations }), _) => {
            let text = format!("{} of {}", grouped(bound.into()), grouped(relocations.into()));
            Ok(value(f64::from(bound), text))
        }
        (None, Some(why)) => Err(format!("the index's bindings are not applied: {why}")),
        (None, None) => {
            Ok(dash(why_not.map(|why| format!("the index has no bindings of it: {why}"))))
        }
    }
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
        (None, kind) if kind.strategy().is_some() => {
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
        (None, None) if figures.objects == control.objects => return answer(Verdict::Yes, None),
        (None, None) => "the same, in another order".to_owned(),
        (Some(lost), None) => format!("{lost} is not loaded"),
        (None, Some(more)) => format!("{more} is loaded as well"),
        (Some(lost), Some(other)) => format!("{other} instead of {lost}"),
    };
    answer(Verdict::No, Some(what))
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
            program.start.facts.libc
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
    if control
        .and_then(|timed| timed.ratio)
        .is_some_and(|r| r.interval().is_some() && !r.holds_one())
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
    let interval = ratio.interval().map(|(from, to)| format!("{from:.digits$}–{to:.digits$}"));
    (format!("{:.digits$}", ratio.ratio), interval)
}
