//! Strategies applied to objects and reverted, as `becalm fix`, `index` and `undo` do it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use becalm_core::strategy::Severity;
use becalm_core::strategy::Strategy;
use becalm_host::write::{HardLinks, WriteOptions};
use bstr::{BStr, BString, ByteSlice};
use thiserror::Error;

use crate::assume::{self, StorePrefixes};
use crate::compare::error::CompareError;
use crate::compare::kind::{Compared, Kind};
use crate::escape::shown;
use crate::fix::options::{Options, Resolve};
use crate::fix::{fix, report::Report};
use crate::index::variables::Settings;
use crate::index::{file, make, platforms, variables};
use crate::path::path_bytes;
use crate::progress::Silent;
use crate::undo;
use crate::writing::{Changed, Outcome};

/// Input of a strategy.
#[derive(Clone, Debug)]
pub(super) struct Site<'a> {
    /// The programs.
    pub programs: &'a [PathBuf],
    /// All objects, the programs among them.
    pub objects: &'a [PathBuf],
    /// The prefixes to index.
    pub prefixes: &'a [PathBuf],
    /// For `--store`.
    pub stores: &'a OsStr,
    /// Path of the index to write.
    pub index: PathBuf,
}

/// Variables that a strategy needs in the environment.
pub type Variables = Vec<(OsString, OsString)>;

/// Files with several names are scratch copies, and set-id files are as good as others.
const WRITING: WriteOptions = WriteOptions {
    in_place: false,
    hard_links: HardLinks::Break,
    set_id: true,
    keep_times: false,
    durability: becalm_host::write::Durability::Synced,
};

/// Longer than the grain of a file system's clock: an index has no bindings of files that changed a
/// moment ago.
pub(super) const GRAIN: Duration = Duration::from_millis(300);

/// A strategy that is applied.
#[derive(Debug)]
pub(super) struct Done {
    /// The variables that programs are then started with.
    pub variables: Variables,
    /// Remark for the reader.
    pub remark: Option<String>,
    /// Why an index beside the store has no symbol bindings of the program.
    pub not_bound: Option<String>,
}

/// Applies a strategy to a site.
///
/// # Errors
/// Why it could not be applied at all.
pub(super) fn apply(kind: Kind, site: &Site<'_>) -> Result<Done, CompareError> {
    if kind.is_index() {
        return index(kind, site);
    }
    let (variables, report) = put(kind, site, &plain_assumptions())?;
    let done = |remark| Done { variables, remark, not_bound: None };
    let Some(report) = report else { return Ok(done(None)) };
    let refused = refusals(&report);
    let written = report.files.iter().chain(&report.made).any(|file| file.outcome.is_written());
    let remark = match refused.as_slice() {
        [] => None,
        [first, ..] if !written => return Err(CompareError::Refused(first.clone())),
        [one] => Some(one.clone()),
        [first, rest @ ..] => Some(format!("{first}, and {} more", rest.len())),
    };
    Ok(done(remark))
}

/// As [`apply`], under what is assumed of the machine, and what the strategy reports.
///
/// # Errors
/// Why it could not be applied.
pub(super) fn put(
    kind: Kind,
    site: &Site<'_>,
    assumed: &assume::Options,
) -> Result<(Variables, Option<Report>), CompareError> {
    if kind.is_index() {
        return Ok((index(kind, site)?.variables, None));
    }
    let Some(strategy) = kind.fix() else { return Ok((Vec::new(), None)) };
    let paths = if kind.is_of_program() { site.programs } else { site.objects };
    // Two programs that share libraries have no whole-graph farm in common.
    let at_once = if kind == Kind::of(Strategy::Farm) { 1 } else { paths.len().max(1) };
    let reports = here(|| {
        let fixed = paths.chunks(at_once).map(|paths| fixed(site, strategy, paths, assumed));
        fixed.collect::<Result<Vec<Report>, CompareError>>()
    })??;
    Ok((Vec::new(), reports.into_iter().reduce(joined)))
}

/// Runs work with threads that are in the mount namespace of this one.
fn here<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, CompareError> {
    Ok(rayon::ThreadPoolBuilder::new().build()?.install(work))
}

fn fixed(
    site: &Site<'_>,
    (with, resolve, closure): (Strategy, Resolve, bool),
    paths: &[PathBuf],
    assumed: &assume::Options,
) -> Result<Report, CompareError> {
    let store = StorePrefixes(site.stores.to_owned());
    let options = Options {
        paths: paths.to_vec(),
        resolve,
        closure,
        // What it costs is what is compared.
        allow_more_misses: true,
        ..Options::of(with, true, assume::Options { store, ..assumed.clone() })
    };
    Ok(fix(&options, Some(WRITING), &Silent)?)
}

/// The assumptions without what the user's environment tells loaders.
pub fn plain_assumptions() -> assume::Options {
    let none = || Some(OsString::new());
    assume::Options {
        library_path: none(),
        preload: none(),
        audit: none(),
        ..assume::Options::default()
    }
}

/// One report with the lists of two.
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

/// The files that a strategy could not or would not change, and why.
pub(super) fn refusals(report: &Report) -> Vec<String> {
    let line = |path: &BStr, why: &str| {
        let at = path.rfind_byte(b'/').map_or(0, |slash| slash + 1);
        format!("{}: {why}", path[at..].to_str_lossy())
    };
    let problems = report.problems.iter();
    let mut all: Vec<String> = problems.map(|p| line(p.path.as_ref(), &p.reason)).collect();
    let files = report.files.iter().chain(&report.made);
    all.extend(files.filter_map(|file| Some(line(file.path.as_ref(), refusal(file)?))));
    let grave = report.findings.iter().filter(|finding| finding.severity >= Severity::Conflict);
    all.extend(grave.map(|finding| line(finding.path.as_ref(), &finding.what)));
    all
}

fn refusal(file: &Changed) -> Option<&str> {
    match &file.outcome {
        Outcome::Refused { reason } => Some(reason),
        _ => None,
    }
}

/// Indexes the stores; the variables are those of `becalm env`.
fn index(kind: Kind, site: &Site<'_>) -> Result<Done, CompareError> {
    let options = make::Options {
        stores: site.prefixes.to_vec(),
        prefixes: StorePrefixes(site.stores.to_owned()).paths(),
        output: Some(site.index.clone()),
        ..make::Options::default()
    };
    let report = here(|| make::index(&options, &Silent))??;
    let is_nobind = kind == Kind::Strategy(Compared::IndexNobind);
    let variables = index_variables(&site.index, is_nobind.then_some(variables::NO_BIND))?;
    let bindings = report.content.map(|content| content.bindings);
    let left_out = bindings.into_iter().flat_map(|bindings| bindings.not_bound);
    let programs: Vec<BString> = site.programs.iter().map(|path| path_bytes(path)).collect();
    let mut of_programs = left_out.filter(|program| programs.contains(&program.path));
    let not_bound = of_programs.next().map(|program| program.reason.to_string());
    Ok(Done { variables, remark: None, not_bound })
}

/// The variables of a start with an index, and a switch of its module: those of `becalm env`.
///
/// # Errors
/// Returns an error if the file is no index.
pub fn index_variables(
    index: &Path,
    switch: Option<&'static str>,
) -> Result<Variables, CompareError> {
    let opened = file::open(index)?;
    let (module, static_tls) = (platforms::audit_path(&opened), opened.session_static_tls()?);
    let variables = Settings { module, static_tls, switch }.added(|_| None).into_iter();
    Ok(variables.filter_map(|it| Some((it.name.into(), it.value?))).collect())
}

/// A file that is not as it was before a strategy, and how it differs.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotUndone {
    /// It could not be reverted.
    #[error("{}: {reason}", shown(.path.as_ref()))]
    Refused {
        /// The file.
        path: BString,
        /// The reason.
        reason: String,
    },
    /// It is another file now.
    #[error("{} {how}", .path.display())]
    Differs {
        /// The file, below the packages.
        path: PathBuf,
        /// How it differs.
        how: &'static str,
    },
}

impl NotUndone {
    /// A file that is not as it was.
    pub(super) fn new(path: &Path, how: &'static str) -> Self {
        Self::Differs { path: path.to_owned(), how }
    }
}

/// Reverts what a strategy changed; `Some` names a file that could not be.
///
/// # Errors
/// No thread can be started.
pub(super) fn revert(paths: &[PathBuf]) -> Result<Option<NotUndone>, CompareError> {
    let options = undo::Options { writing: WRITING, ..undo::Options::default() };
    let report = here(|| undo::undo(paths, &options, &Silent))?;
    let not_undone = |path: &BString, reason: &str| {
        let (path, reason) = (path.clone(), reason.to_owned());
        NotUndone::Refused { path, reason }
    };
    let refused = report.files.iter().chain(&report.removed);
    let mut refused = refused.filter_map(|file| Some(not_undone(&file.path, refusal(file)?)));
    let problem = report.problems.last().map(|it| not_undone(&it.path, &it.reason));
    Ok(refused.next_back().or(problem))
}

/// Variables by which a user tells loaders and becalm's module what to do.
const TAKEN: [&str; 8] = [
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "LD_AUDIT",
    "LD_DEBUG",
    "LD_DEBUG_OUTPUT",
    "LD_BIND_NOW",
    "GLIBC_TUNABLES",
    "BECALM",
];

/// Takes away what the user's environment tells loaders.
pub(super) fn plain(command: &mut std::process::Command) {
    for name in TAKEN {
        command.env_remove(name);
    }
    command.stdin(std::process::Stdio::null());
}

/// The environment of this process without what it tells loaders, and with these variables.
#[must_use]
pub fn environment(variables: &Variables) -> Variables {
    let own = std::env::vars_os().filter(|(name, _)| !TAKEN.iter().any(|taken| name == taken));
    own.chain(variables.iter().cloned()).collect()
}

/// The last line that says something, without the name of the program that says it.
pub(super) fn last_line(text: &[u8]) -> String {
    let line = text.lines().rfind(|line| !line.trim_ascii().is_empty()).unwrap_or_default();
    let line = line.strip_prefix(b"becalm: ").unwrap_or(line);
    shown(line.trim_ascii().as_bstr())
}
