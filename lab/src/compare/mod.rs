//! `lab compare`: applies every strategy to a copy of the program's closure, and makes a table
//! of measurements and test results.
//!
//! [`becalm_lib::compare`] examines the program, and [`apply`] applies a strategy. [`column`] makes a copy for
//! each strategy, and mounts it over the originals in a mount namespace
//! ([`crate::mount_namespace`]). [`figures`] traces a start of each column, [`becalm_lib::bench`]
//! times the starts, `trials` tests the properties, and `table` makes the table.

mod apply;
pub(crate) mod args;
mod column;
mod error;
mod figures;
mod footnotes;
mod kind;
mod markdown;
mod outcome;
pub(crate) mod run;
mod table;
mod text;
mod tree;
mod trials;

use std::ffi::OsString;
use std::io::{IsTerminal as _, stderr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use becalm_host::bench::{self, Enter, Measured, Rounds, Until, Variant};
use becalm_host::trace::Command;
use clap::ValueEnum as _;

use self::column::{Column, Stock};
use self::error::CompareError;
use self::figures::Runs;
use self::kind::{Compared, Kind};
use self::outcome::{NoFigures, Outcome};
use self::trials::bench::Bench;
use self::trials::columns;
use becalm_lib::assume::StorePrefixes;
use becalm_lib::bench::measure;
use becalm_lib::compare::apply::environment;
use becalm_lib::compare::comparison::{Comparison, Row};
use becalm_lib::compare::import::import;
use becalm_lib::compare::program::Program;
use becalm_lib::escape::shown;
use becalm_lib::path::path_bytes;
use becalm_lib::progress::Silent;

/// Duration of the timing if no number of rounds is given.
const TIMED: Duration = Duration::from_secs(30);

/// The program and the strategies to compare, with the settings of the comparison.
#[derive(Clone, Debug)]
pub(super) struct Options {
    /// The program, as it was named.
    pub name: PathBuf,
    /// The program's arguments.
    pub args: Vec<OsString>,
    /// The strategies, besides the untouched control; empty for all.
    pub strategies: Vec<Compared>,
    /// A static build of the program, as another column.
    pub static_build: Option<PathBuf>,
    /// A loader that reads notes and package caches, with its `libc.so.6` beside it.
    pub loader: Option<PathBuf>,
    /// The number of rounds in which starts are timed; `None` for as many as fit into half a
    /// minute.
    pub rounds: Option<usize>,
    /// The time after which a start is killed.
    pub time_limit: Duration,
    /// True if starts with an exit code other than 0 are compared.
    pub accept_failure: bool,
    /// True if the properties are tested.
    pub with_trials: bool,
}

/// Compares strategies on a program. All files are made below `place`, a directory without links in
/// its path. [`crate::mount_namespace::prepare`] must be called first, while the process has
/// one thread.
///
/// # Errors
/// Returns an error if the program does not start as it is, or nothing can be copied or timed.
pub(super) fn compare(
    found: Program,
    options: &Options,
    place: &Path,
) -> Result<Comparison, CompareError> {
    let (program, name) = match found.package() {
        Some(_) => (found, None),
        None => (in_a_store(&found, place)?, Some(found.path)),
    };
    let mut comparison = compared(options, &program, place)?;
    if let Some(path) = name {
        comparison.program = shown(path_bytes(&path).as_ref());
        comparison.notes.push(
            "the program lies in no store (--store): compared is a copy in a scratch store of one \
             library to a directory, whose misses are not those of the program in its place (becalm \
             check)"
                .to_owned(),
        );
    }
    Ok(comparison)
}

/// Copies a program outside all stores into a store made for it. Returns the copy.
fn in_a_store(found: &Program, place: &Path) -> Result<Program, CompareError> {
    let store = place.join("store");
    let path = import(&found.closure, &found.interpreter, &store)?;
    Ok(Program::look(&path, &StorePrefixes(store.into_os_string()))?)
}

fn compared(
    options: &Options,
    program: &Program,
    place: &Path,
) -> Result<Comparison, CompareError> {
    let runs = Runs {
        place: place.to_owned(),
        args: options.args.clone(),
        limit: options.time_limit,
        accept_failure: options.accept_failure,
        hwcaps: program.hwcaps(),
    };
    let kinds = kinds(options);
    now("copying the packages");
    let stock = Stock::copy(program, place)?;
    let mut outcomes = Vec::new();
    for kind in kinds {
        now(&format!("applying: {}", kind.name()));
        outcomes.push(outcome(kind, options, (program, &stock), &runs)?);
    }
    now("timing the starts");
    let measured = timed(options, &outcomes, &runs)?;
    for outcome in &mut outcomes {
        now(&format!("reverting: {}", outcome.kind.name()));
        if let (Kind::Strategy(_), Ok(column)) = (outcome.kind, &outcome.column) {
            // An index changes no file of the store, so there is nothing to revert.
            if !outcome.kind.is_index() {
                outcome.undone = Some(column.undo(program, &stock)?);
            }
        }
    }
    let trials = match options.with_trials {
        true => tried(options, program, &outcomes, place)?,
        false => Vec::new(),
    };
    let mut comparison = table::made(options, program, &stock, &outcomes, &measured);
    comparison.rows.extend(trials);
    Ok(comparison)
}

/// Names the current step on a terminal.
fn now(step: &str) {
    if stderr().is_terminal() {
        eprintln!("{step}");
    }
}

/// Returns the columns, in order.
fn kinds(options: &Options) -> Vec<Kind> {
    let all = Compared::value_variants().iter().copied();
    let wanted =
        all.filter(|one| options.strategies.is_empty() || options.strategies.contains(one));
    let mut kinds = vec![Kind::Control];
    let strategies: Vec<Kind> = wanted.map(Kind::Strategy).collect();
    if options.loader.is_some() && strategies.iter().any(|kind| kind.wants_patched_loader()) {
        kinds.push(Kind::PatchedControl);
    }
    kinds.extend(strategies);
    kinds.extend(options.static_build.is_some().then_some(Kind::Static));
    kinds
}

/// Applies a strategy, and traces a start with it.
fn outcome(
    kind: Kind,
    options: &Options,
    (program, stock): (&Program, &Stock),
    runs: &Runs,
) -> Result<Outcome, CompareError> {
    let column = match (kind, &options.static_build) {
        (Kind::Static, Some(file)) => Ok(Column::of_static(file)?),
        (Kind::Control, _) => Ok(Column::make(kind, program, stock, &runs.place)?),
        _ => Column::make(kind, program, stock, &runs.place),
    };
    let watched = |column: &Column| figures::of(column, runs).map_err(NoFigures::NotWatched);
    let figures = match (&column, &options.loader) {
        (Err(_), _) => Err(NoFigures::NoColumn),
        (Ok(_), None) if kind.wants_patched_loader() => Err(NoFigures::NoLoader),
        (Ok(column), Some(loader)) if kind.wants_patched_loader() => {
            let loader = real(loader)?;
            let set = column.set_loader(program, &loader);
            set.map_err(|error| CompareError::Loader(Box::new(error)))?;
            watched(column)
        }
        (Ok(column), _) => watched(column),
    };
    match (kind, figures) {
        (Kind::Control, Err(NoFigures::NotWatched(why))) => {
            Err(CompareError::Control { program: options.name.clone(), source: Box::new(why) })
        }
        (_, figures) => Ok(Outcome { kind, column, figures, undone: None }),
    }
}

fn real(path: &Path) -> Result<PathBuf, CompareError> {
    path.canonicalize().map_err(CompareError::io(path))
}

/// Tests the properties.
fn tried(
    options: &Options,
    program: &Program,
    outcomes: &[Outcome],
    place: &Path,
) -> Result<Vec<Row>, CompareError> {
    let loader = options.loader.as_deref().map(real).transpose()?;
    let bench = Bench { place: &place.join("trials"), program, loader: loader.as_deref() };
    let kinds: Vec<Kind> = outcomes.iter().map(|outcome| outcome.kind).collect();
    Ok(columns::rows(&bench, &kinds, |kind| {
        now(&format!("trying the properties: {}", kind.name()));
    }))
}

/// Times the starts of all columns whose program starts.
fn timed(options: &Options, outcomes: &[Outcome], runs: &Runs) -> Result<Measured, CompareError> {
    let mut variants = Vec::new();
    let mut first = None;
    for outcome in outcomes {
        let (Ok(column), Ok(_)) = (&outcome.column, &outcome.figures) else { continue };
        first.get_or_insert(&column.mount_namespace);
        let mut command = Command::new(&column.program, runs.args.iter().cloned());
        command.env = Some(environment(&column.variables));
        let mount_namespace = column.mount_namespace.clone();
        let enter: Arc<Enter> = Arc::new(move || Ok(mount_namespace.enter()?));
        variants.push(Variant { name: outcome.kind.name(), command, enter: Some(enter) });
    }
    let options = bench::Options {
        until: Until::Exit,
        rounds: options.rounds.map_or(Rounds::Within(TIMED), Rounds::Exactly),
        warmup: 1,
        timeout: options.time_limit,
        accept_failure: options.accept_failure,
        ..bench::Options::default()
    };
    let mount_namespace = first.ok_or(CompareError::Nothing)?;
    Ok(mount_namespace.run(|| measure(&variants, &options, &Silent))??)
}
