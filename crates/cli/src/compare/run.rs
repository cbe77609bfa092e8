//! `becalm compare`: every strategy on a copy of the program's closure, and a table of what was
//! measured and tried.
//!
//! [`program`] says what is compared, [`apply`] applies each strategy, [`column`] on copies that
//! lie in the originals' places in a room of their own ([`becalm_host::mount_namespace`]), [`figures`]
//! watches a start of each, [`becalm_lib::bench`] times them against each other, [`trials`]
//! tries the properties, [`table`] puts it together; [`crate::compare::output`] tells it.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use becalm_host::bench::{Measured, Options, Rounds, Until, Variant};
use becalm_host::mount_namespace;
use becalm_lib::assume::StorePrefixes;
use becalm_lib::bench::measure;
use becalm_lib::escape::shown;
use becalm_lib::path::path_bytes;
use clap::ValueEnum;

use crate::bench::{run, variants};
use crate::compare::apply::{self, Kind};
use crate::compare::args::{CompareArgs, Compared};
use crate::compare::column::{Column, Stock, in_words};
use crate::compare::comparison::{self, Row};
use crate::compare::figures::{self, Runs};
use crate::compare::outcome::Outcome;
use crate::compare::program::Program;
use crate::compare::trials::{bench, columns};
use crate::compare::{output, table};
use crate::exit_code::ExitStatus;
use crate::scratch::Scratch;
use crate::scratch::import::import;
use crate::terminal::Stdout;
use crate::terminal::progress::{Bars, Stages};
use crate::terminal::style::{Look, When};

/// How long the starts are timed where nothing is said.
const TIMED: Duration = Duration::from_secs(30);

/// Compares and tells.
///
/// # Errors
/// The program cannot be compared, or there is no room, right or place to do it.
pub(crate) fn run(args: &CompareArgs, color: When) -> Result<ExitStatus> {
    let program_args = variants::arguments(args.run.as_deref(), &args.args)?;
    // Before there is a second thread.
    let rooms = mount_namespace::prepare();
    let found = Program::look(&args.program, &args.store.prefixes())?;
    rooms.map_err(|error| in_words(&error))?;
    let becalm = std::env::current_exe()?;
    let scratch = Scratch::new()?;
    let (program, name) = match in_a_store(&found, &scratch) {
        Ok(None) => (found, None),
        Ok(Some(program)) => (program, Some(found.path)),
        Err(error) => return scratch.done(Err(error)),
    };
    let runs = Runs {
        becalm,
        place: scratch.path().to_owned(),
        args: program_args,
        limit: args.time_limit,
        accept_failure: args.ignore_failure,
        hwcaps: program.hwcaps(),
    };
    let outcome = compared(args, &program, &scratch, &runs);
    let mut comparison = scratch.done(outcome)?;
    if let Some(path) = name {
        comparison.program = shown(path_bytes(&path).as_ref());
        comparison.notes.push(
            "the program lies in no store (--store): compared is a copy in a scratch store of one \
             library to a directory"
                .to_owned(),
        );
    }
    let mut out = Stdout::new();
    output::write(&mut out, args, Look::of_stdout(color), &comparison)?;
    out.flush()?;
    Ok(if table::is_finding(&comparison) { ExitStatus::Finding } else { ExitStatus::Fine })
}

/// The program in a store made for it, where it lies in none.
fn in_a_store(found: &Program, scratch: &Scratch) -> Result<Option<Program>> {
    if found.package().is_some() {
        return Ok(None);
    }
    let store = scratch.path().join("store");
    let path = import(&found.closure, &found.interpreter, &store)?;
    Program::look(&path, &StorePrefixes(store.into_os_string())).map(Some)
}

/// All that is in the table.
fn compared(
    args: &CompareArgs,
    program: &Program,
    scratch: &Scratch,
    runs: &Runs,
) -> Result<comparison::Comparison> {
    let kinds = kinds(args);
    let stages = Stages::new(program.packages.len() + 4 * kinds.len());
    stages.now("copying the packages");
    let stock = Stock::copy(program, scratch.path(), || stages.tick())?;
    let mut outcomes = Vec::new();
    for kind in kinds {
        stages.now(&format!("putting on: {}", kind.name()));
        outcomes.push(outcome(kind, args, program, &stock, scratch, runs, &stages)?);
        stages.tick();
    }
    stages.pause();
    let measured = timed(args, &outcomes, runs)?;
    stages.resume();
    for outcome in &mut outcomes {
        stages.now(&format!("taking back: {}", outcome.kind.name()));
        if let (Kind::Strategy(strategy), Ok(column)) = (outcome.kind, &outcome.column) {
            // An index changes nothing that could be taken back.
            if strategy != Compared::Index {
                outcome.undone = Some(column.undo(program, &stock)?);
            }
        }
        stages.tick();
    }
    let trials = match args.no_trials {
        true => Vec::new(),
        false => tried(args, program, &outcomes, scratch, &stages)?,
    };
    stages.finish();
    let mut comparison = table::made(args, program, &stock, &outcomes, &measured);
    comparison.rows.extend(trials);
    Ok(comparison)
}

/// The columns, in order.
fn kinds(args: &CompareArgs) -> Vec<Kind> {
    let all = Compared::value_variants().iter().copied();
    let wanted = all.filter(|one| args.strategies.is_empty() || args.strategies.contains(one));
    let mut kinds = vec![Kind::Control];
    let strategies: Vec<Kind> = wanted.map(Kind::Strategy).collect();
    if args.loader.is_some() && strategies.iter().any(|kind| kind.wants_patched_loader()) {
        kinds.push(Kind::PatchedControl);
    }
    kinds.extend(strategies);
    kinds.extend(args.static_build.is_some().then_some(Kind::Static));
    kinds
}

/// Applies a strategy, and traces a start with it.
fn outcome(
    kind: Kind,
    args: &CompareArgs,
    program: &Program,
    stock: &Stock,
    scratch: &Scratch,
    runs: &Runs,
    stages: &Stages,
) -> Result<Outcome> {
    let made = match (kind, &args.static_build) {
        (Kind::Static, Some(file)) => Ok(Column::of_static(file)?),
        _ => Column::make(kind, program, stock, scratch.path()),
    };
    stages.tick();
    if let (Kind::Control, Err(error)) = (kind, &made) {
        return Err(anyhow!("{error:#}"));
    }
    let column = made.map_err(|error| format!("{error:#}"));
    let figures = match (&column, &args.loader) {
        (Err(why), _) => Err(why.clone()),
        (Ok(_), None) if kind.wants_patched_loader() => {
            Err("no loader that reads it was given (--loader)".to_owned())
        }
        (Ok(column), Some(loader)) if kind.wants_patched_loader() => {
            let loader = loader.canonicalize().with_context(|| loader.display().to_string())?;
            column.set_loader(program, &loader).context("--loader")?;
            figures::of(column, runs).map_err(|error| format!("{error:#}"))
        }
        (Ok(column), _) => figures::of(column, runs).map_err(|error| format!("{error:#}")),
    };
    match (kind, figures) {
        (Kind::Control, Err(why)) => Err(anyhow!(
            "{}: {why} (other arguments: --run; compare it all the same: --ignore-failure)",
            args.program.display()
        )),
        (_, figures) => Ok(Outcome { kind, column, figures, undone: None }),
    }
}

/// Tries the properties.
fn tried(
    args: &CompareArgs,
    program: &Program,
    outcomes: &[Outcome],
    scratch: &Scratch,
    stages: &Stages,
) -> Result<Vec<Row>> {
    let loader = args.loader.as_ref().map(|loader| loader.canonicalize()).transpose()?;
    let bench =
        bench::Bench { place: &scratch.path().join("trials"), program, loader: loader.as_deref() };
    let kinds: Vec<Kind> = outcomes.iter().map(|outcome| outcome.kind).collect();
    Ok(columns::rows(&bench, &kinds, |kind| {
        stages.now(&format!("trying the properties: {}", kind.name()));
        stages.tick();
    }))
}

/// Times the starts of all columns that start.
fn timed(args: &CompareArgs, outcomes: &[Outcome], runs: &Runs) -> Result<Measured> {
    let mut variants = Vec::new();
    let mut first = None;
    for outcome in outcomes {
        let (Ok(column), Ok(_)) = (&outcome.column, &outcome.figures) else { continue };
        first.get_or_insert(&column.mount_namespace);
        let mut command =
            becalm_host::trace::Command::new(&column.program, runs.args.iter().cloned());
        command.env = Some(environment(column));
        let name = outcome.kind.name().to_owned();
        variants.push(Variant {
            name,
            command,
            mount_namespace: Some(column.mount_namespace.clone()),
        });
    }
    let options = Options {
        until: Until::Exit,
        rounds: match args.runs {
            Some(runs) => Rounds::Exactly(runs.into()),
            None => Rounds::Within(TIMED),
        },
        warmup: 1,
        timeout: args.time_limit,
        accept_failure: args.ignore_failure,
        ..Options::default()
    };
    let mount_namespace = first.context("nothing to time")?;
    let measured = mount_namespace.run(|| measure(&variants, &options, &Bars));
    let measured = measured.map_err(|error| in_words(&error))?;
    measured.map_err(|error| run::in_words(&error))
}

/// Our environment without what it tells loaders, and with what the strategy needs.
fn environment(column: &Column) -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
    let mut command = std::process::Command::new("");
    apply::plain(&mut command);
    let taken: Vec<_> = command.get_envs().map(|(name, _)| name.to_owned()).collect();
    let own = std::env::vars_os().filter(|(name, _)| !taken.contains(name));
    own.chain(column.variables.iter().cloned()).collect()
}
