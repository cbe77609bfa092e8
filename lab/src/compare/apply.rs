//! Applies strategies to objects and reverts them, like `becalm fix`, `index` and `undo`.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use becalm_core::strategy::Severity;
use becalm_core::strategy::Strategy;
use becalm_host::write::{HardLinks, WriteOptions};
use bstr::{BStr, BString, ByteSlice};

use crate::compare::kind::Kind;
use becalm_lib::assume::{self, StorePrefixes};
use becalm_lib::compare::apply::{Variables, environment, index_variables, plain_assumptions};
use becalm_lib::escape::shown;
use becalm_lib::fix::options::{Options, Resolve};
use becalm_lib::fix::{fix, report::Report};
use becalm_lib::index::{make, variables};
use becalm_lib::path::path_bytes;
use becalm_lib::progress::Silent;
use becalm_lib::undo;
use becalm_lib::writing::{Changed, Outcome};

/// Input of a strategy.
#[derive(Clone, Debug)]
pub(super) struct Site<'a> {
    /// The programs.
    pub programs: &'a [PathBuf],
    /// All objects, the programs among them.
    pub objects: &'a [PathBuf],
    /// The prefixes to index.
    pub prefixes: &'a [PathBuf],
    /// The value of `--store`.
    pub stores: &'a OsStr,
    /// Path of the index to write.
    pub index: PathBuf,
}

/// Hard-linked files are scratch copies, so their links may be broken. Set-id files are edited too.
const WRITING: WriteOptions = WriteOptions {
    in_place: false,
    hardlinks: HardLinks::Break,
    setuid: true,
    keep_times: false,
    no_sync: false,
};

/// Wait before an index is made, longer than the resolution of a file system's clock. An index has
/// no bindings of files that have just changed.
pub(super) const GRAIN: Duration = Duration::from_millis(300);

/// An applied strategy.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// Environment variables with which the programs must be started.
    pub variables: Variables,
    /// Remark for the reader.
    pub remark: Option<String>,
    /// Reason why the index beside the store has no symbol bindings of the program, if it has none.
    pub not_bound: Option<String>,
}

/// Applies a strategy to a site.
///
/// # Errors
/// Returns an error if the strategy cannot be applied at all.
pub(super) fn apply(kind: Kind, site: &Site<'_>) -> Result<Done> {
    if kind.is_index() {
        return index(kind, site);
    }
    let Some(report) = put(kind, site, &plain_assumptions())? else { return Ok(Done::default()) };
    let refused = refusals(&report);
    let written = report.files.iter().chain(&report.made).any(|file| file.outcome.is_written());
    let remark = match refused.as_slice() {
        [] => None,
        [first, ..] if !written => bail!(first.clone()),
        [one] => Some(one.clone()),
        [first, rest @ ..] => Some(format!("{first}, and {} more", rest.len())),
    };
    Ok(Done { remark, ..Done::default() })
}

/// Applies a strategy like [`apply`], with assumptions about the machine. Returns the
/// report of `becalm fix`.
///
/// # Errors
/// Returns an error if the strategy cannot be applied.
pub(super) fn put(
    kind: Kind,
    site: &Site<'_>,
    assumed: &assume::Options,
) -> Result<Option<Report>> {
    if kind.is_index() {
        index(kind, site)?;
    }
    let Some(strategy) = kind.fix() else { return Ok(None) };
    let paths = if kind.is_of_program() { site.programs } else { site.objects };
    // A farm of a whole closure cannot serve two programs that share libraries.
    let at_once = if kind.is_of_closure() { 1 } else { paths.len().max(1) };
    let reports = here(|| {
        let fixed = paths.chunks(at_once).map(|paths| fixed(site, strategy, paths, assumed));
        fixed.collect::<Result<Vec<Report>>>()
    })??;
    Ok(reports.into_iter().reduce(joined))
}

/// Runs work in a thread pool whose threads are in the mount namespace of this thread.
fn here<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T> {
    // The threads of the global pool are in another namespace; new threads inherit that of this
    // one.
    Ok(rayon::ThreadPoolBuilder::new().build()?.install(work))
}

fn fixed(
    site: &Site<'_>,
    (with, resolve, closure): (Strategy, Resolve, bool),
    paths: &[PathBuf],
    assumed: &assume::Options,
) -> Result<Report> {
    let store = StorePrefixes { store: vec![site.stores.to_owned()] };
    let options = Options {
        paths: paths.to_vec(),
        resolve,
        closure,
        // More misses are allowed, because the table shows them.
        allow_more_misses: true,
        dry_run: false,
        writing: WRITING,
        ..Options::of(with, true, assume::Options { store, ..assumed.clone() })
    };
    fix(&options, &Silent)
}

/// Returns one report with the lists of both.
fn joined(mut all: Report, more: Report) -> Report {
    all.plan.extend(more.plan);
    all.creations.extend(more.creations);
    all.files.extend(more.files);
    all.made.extend(more.made);
    all.findings.extend(more.findings);
    all.programs.extend(more.programs);
    all.problems.extend(more.problems);
    all
}

/// Returns the files that a strategy could not or would not change, each with the reason.
pub(super) fn refusals(report: &Report) -> Vec<String> {
    let line =
        |path: &BStr, why: &str| format!("{}: {why}", becalm_core::path::name(path).to_str_lossy());
    let problems = report.problems.iter();
    let mut all: Vec<String> = problems.map(|p| line(p.path.as_ref(), &p.reason)).collect();
    let files = report.files.iter().chain(&report.made);
    all.extend(files.filter_map(|file| Some(line(file.path.as_ref(), refusal(file)?))));
    let grave = report.findings.iter().filter(|finding| finding.severity >= Severity::Conflict);
    all.extend(grave.map(|finding| line(finding.path.as_ref(), &finding.what.to_string())));
    all
}

fn refusal(file: &Changed) -> Option<&str> {
    match &file.outcome {
        Outcome::Refused { reason } => Some(reason),
        _ => None,
    }
}

/// Indexes the stores, and returns the variables of `becalm env`.
fn index(kind: Kind, site: &Site<'_>) -> Result<Done> {
    let options = make::Options {
        stores: site.prefixes.to_vec(),
        prefixes: StorePrefixes { store: vec![site.stores.to_owned()] }.paths(),
        output: Some(site.index.clone()),
        ..make::Options::default()
    };
    let report = here(|| make::index(&options, &Silent))??;
    let is_nobind = kind == Kind::IndexNobind;
    let variables = index_variables(&site.index, is_nobind.then_some(variables::NO_BIND))?;
    let bindings = report.content.map(|content| content.bindings);
    let left_out = bindings.into_iter().flat_map(|bindings| bindings.not_bound);
    let programs: Vec<BString> = site.programs.iter().map(|path| path_bytes(path)).collect();
    let mut of_programs = left_out.filter(|program| programs.contains(&program.path));
    let not_bound = of_programs.next().map(|program| program.reason.to_string());
    Ok(Done { variables, remark: None, not_bound })
}

/// Reverts a strategy. Returns a file that could not be reverted, or `None`.
///
/// # Errors
/// Returns an error if no thread can be started.
pub(super) fn revert(paths: &[PathBuf]) -> Result<Option<String>> {
    let options = undo::Options { writing: WRITING, ..undo::Options::default() };
    let report = here(|| undo::undo(paths, &options, &Silent))?;
    let not_undone = |path: &BString, reason: &str| format!("{}: {reason}", shown(path.as_ref()));
    let refused = report.files.iter().chain(&report.removed);
    let mut refused = refused.filter_map(|file| Some(not_undone(&file.path, refusal(file)?)));
    let problem = report.problems.last().map(|it| not_undone(&it.path, &it.reason));
    Ok(refused.next_back().or(problem))
}

/// Returns the last line that is not blank, without the prefix `becalm: `.
pub(super) fn last_line(text: &[u8]) -> String {
    let line = text.lines().rfind(|line| !line.trim_ascii().is_empty()).unwrap_or_default();
    let line = line.strip_prefix(b"becalm: ").unwrap_or(line);
    shown(line.trim_ascii().as_bstr())
}

/// Removes the variables that affect loaders from a command, and sets its stdin to `/dev/null`.
pub(super) fn plain(command: &mut std::process::Command) {
    command.env_clear().envs(environment(&Variables::new())).stdin(std::process::Stdio::null());
}
