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
mod figures;
mod kind;
mod markdown;
mod outcome;
mod placed;
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

use anyhow::{Context, Result, anyhow};
use becalm_host::bench::{self, Enter, Measured, Rounds, Until, Variant};
use becalm_host::trace::Command;
use clap::ValueEnum as _;

use self::args::CompareArgs;
use self::column::{Column, Stock};
use self::figures::Runs;
use self::kind::Kind;
use self::outcome::{NO_LOADER, Outcome, words};
use self::placed::Program;
use self::trials::{Bench, columns};
use becalm_lib::assume::StorePrefixes;
use becalm_lib::bench::measure;
use becalm_lib::compare::apply::environment;
use becalm_lib::compare::comparison::{Comparison, Row};
use becalm_lib::compare::import::import;
use becalm_lib::escape::shown;
use becalm_lib::path::path_bytes;
use becalm_lib::progress::Silent;

/// Duration of the timing if no number of rounds is given.
const TIMED: Duration = Duration::from_secs(30);

/// Compares strategies on a program. All files are made below `place`, a directory without links in
/// its path. [`crate::mount_namespace::prepare`] must be called first, while the process has
/// one thread.
///
/// # Errors
/// Returns an error if the program does not start as it is, or nothing can be copied or timed.
pub(super) fn compare(
    found: Program,
    args: &CompareArgs,
    (program_args, limit): (Vec<OsString>, Duration),
    place: &Path,
) -> Result<Comparison> {
    let (program, name) = match found.package() {
        Some(_) => (found, None),
        None => (in_a_store(&found, place)?, Some(found.start.path.clone())),
    };
    let hwcaps = program.hwcaps();
    let runs = Runs { options: args, place, args: program_args, limit, hwcaps };
    let mut comparison = compared(&program, &runs)?;
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
fn in_a_store(found: &Program, place: &Path) -> Result<Program> {
    let store = place.join("store");
    let path = import(&found.start.closure, &found.start.interpreter, &store)?;
    Program::look(&path, &StorePrefixes { store: vec![store.into_os_string()] })
}

fn compared(program: &Program, runs: &Runs<'_>) -> Result<Comparison> {
    now("copying the packages");
    let stock = Stock::copy(program, runs.place)?;
    let mut outcomes = Vec::new();
    for kind in kinds(runs.options) {
        now(&format!("applying: {}", kind.name()));
        outcomes.push(outcome(kind, (program, &stock), runs)?);
    }
    now("timing the starts");
    let measured = timed(&outcomes, runs)?;
    for outcome in &mut outcomes {
        now(&format!("reverting: {}", outcome.kind.name()));
        // An index changes no file of the store, so there is nothing to revert.
        if let (Some(_), Ok(column)) = (outcome.kind.fix(), &outcome.column) {
            outcome.undone = Some(column.undo(program, &stock)?);
        }
    }
    let trials = match runs.options.no_trials {
        true => Vec::new(),
        false => tried(program, &outcomes, runs)?,
    };
    let mut comparison = table::made(runs.options, program, &stock, &outcomes, &measured);
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
fn kinds(options: &CompareArgs) -> Vec<Kind> {
    let is_wanted = |one: &Kind| options.strategies.is_empty() || options.strategies.contains(one);
    let all = Kind::value_variants().iter().copied();
    let strategies: Vec<Kind> = all.filter(is_wanted).collect();
    let mut kinds = vec![Kind::Control];
    if options.loader.is_some() && strategies.iter().any(|kind| kind.wants_patched_loader()) {
        kinds.push(Kind::PatchedControl);
    }
    kinds.extend(strategies);
    kinds.extend(options.static_build.is_some().then_some(Kind::Static));
    kinds
}

/// Applies a strategy, and traces a start with it.
fn outcome(kind: Kind, (program, stock): (&Program, &Stock), runs: &Runs<'_>) -> Result<Outcome> {
    let CompareArgs { static_build, loader, .. } = runs.options;
    let column = match (kind, static_build) {
        (Kind::Static, Some(file)) => Ok(Column::of_static(file)?),
        (Kind::Control, _) => Ok(Column::make(kind, program, stock, runs.place)?),
        _ => Column::make(kind, program, stock, runs.place).map_err(words),
    };
    let figures = match (&column, loader) {
        (Err(why), _) => Err(why.clone()),
        (Ok(_), None) if kind.wants_patched_loader() => Err(NO_LOADER.to_owned()),
        (Ok(column), loader) => {
            if let Some(loader) = loader.as_ref().filter(|_| kind.wants_patched_loader()) {
                column.set_loader(program, &real(loader)?).context("--loader")?;
            }
            figures::of(column, runs).map_err(words)
        }
    };
    if let (Kind::Control, Err(why)) = (kind, &figures) {
        // The end of the line says what may help.
        let hint = "(other arguments: --run; compare it all the same: --ignore-failure)";
        return Err(anyhow!("{}: {why} {hint}", runs.options.program.display()));
    }
    Ok(Outcome { kind, column, figures, undone: None })
}

fn real(path: &Path) -> Result<PathBuf> {
    path.canonicalize().with_context(|| path.display().to_string())
}

/// Tests the properties.
fn tried(program: &Program, outcomes: &[Outcome], runs: &Runs<'_>) -> Result<Vec<Row>> {
    let loader = runs.options.loader.as_deref().map(real).transpose()?;
    let bench = Bench { place: &runs.place.join("trials"), program, loader: loader.as_deref() };
    let kinds: Vec<Kind> = outcomes.iter().map(|outcome| outcome.kind).collect();
    Ok(columns::rows(&bench, &kinds, |kind| {
        now(&format!("trying the properties: {}", kind.name()));
    }))
}

/// Times the starts of all columns whose program starts.
fn timed(outcomes: &[Outcome], runs: &Runs<'_>) -> Result<Measured> {
    let mut variants = Vec::new();
    let mut first = None;
    for outcome in outcomes {
        let (Ok(column), Ok(_)) = (&outcome.column, &outcome.figures) else { continue };
        first.get_or_insert(&column.mount_namespace);
        let mut command = Command::new(&column.program, runs.args.iter().cloned());
        command.env = Some(environment(&column.done.variables));
        let mount_namespace = column.mount_namespace.clone();
        let enter: Arc<Enter> = Arc::new(move || Ok(mount_namespace.enter()?));
        variants.push(Variant { name: outcome.kind.name(), command, enter: Some(enter) });
    }
    let options = bench::Options {
        until: Until::Exit,
        rounds: runs.options.runs.map_or(Rounds::Within(TIMED), |n| Rounds::Exactly(n.into())),
        warmup: 1,
        timeout: runs.limit,
        accept_failure: runs.options.ignore_failure,
        ..bench::Options::default()
    };
    let mount_namespace = first.context("nothing to time")?;
    Ok(mount_namespace.run(|| measure(&variants, &options, &Silent))??)
}
