//! Strategies applied to objects and reverted, as `becalm fix`, `index` and `undo` do it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use becalm_core::strategy::Severity;
use becalm_host::write::{HardLinks, WriteOptions};
use becalm_lib::assume::{self, StorePrefixes};
use becalm_lib::fix::options::{Options, Resolve, Strategy};
use becalm_lib::fix::{fix, report::Report};
use becalm_lib::index::{file, make, platforms, variables};
use becalm_lib::progress::Silent;
use becalm_lib::undo;
use becalm_lib::writing::{Changed, Outcome};
use bstr::{BStr, ByteSlice};

use crate::compare::args::Compared;

/// Subject of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The program as it is.
    Control,
    /// The program as it is, under the loader that was given.
    PatchedControl,
    /// A strategy.
    Strategy(Compared),
    /// The static build that was given.
    Static,
}

impl Kind {
    /// Returns the name of the column.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Control => "control",
            Self::PatchedControl => "patched",
            Self::Strategy(strategy) => match strategy {
                Compared::Absolute => "absolute",
                Compared::AbsoluteLoader => "absolute-loader",
                Compared::FarmLeaf => "farm-leaf",
                Compared::Farm => "farm",
                Compared::Note => "note",
                Compared::Ldcache => "ldcache",
                Compared::Index => "index",
                Compared::Audit => "audit",
            },
            Self::Static => "static",
        }
    }

    /// Whether only a loader that reads notes and caches makes use of it.
    pub(crate) fn wants_patched_loader(self) -> bool {
        matches!(self, Self::PatchedControl | Self::Strategy(Compared::Note | Compared::Ldcache))
    }

    /// Returns strategy, resolution and closure for `becalm fix`; none if the store is not changed.
    fn fix(self) -> Option<(Strategy, Resolve, bool)> {
        let Self::Strategy(strategy) = self else { return None };
        let (with, resolve, closure) = match strategy {
            Compared::Absolute => (Strategy::Absolute, Resolve::Static, false),
            Compared::AbsoluteLoader => (Strategy::Absolute, Resolve::Loader, false),
            Compared::FarmLeaf => (Strategy::Farm, Resolve::Static, false),
            Compared::Farm => (Strategy::Farm, Resolve::Static, true),
            Compared::Note => (Strategy::Note, Resolve::Static, false),
            Compared::Ldcache => (Strategy::Ldcache, Resolve::Static, false),
            Compared::Audit => (Strategy::Audit, Resolve::Static, false),
            Compared::Index => return None,
        };
        Some((with, resolve, closure))
    }

    /// Whether the program alone is handed to `becalm fix`, not all that it loads.
    fn is_of_program(self) -> bool {
        matches!(self, Self::Strategy(Compared::Farm | Compared::Audit))
    }
}

/// Input of a strategy.
#[derive(Clone, Debug)]
pub(crate) struct Site<'a> {
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

/// Environment variables that a strategy needs.
pub(crate) type Variables = Vec<(OsString, OsString)>;

/// Files with several names are scratch copies, and set-id files are as good as others.
const WRITING: WriteOptions = WriteOptions {
    in_place: false,
    hard_links: HardLinks::Break,
    set_id: true,
    keep_times: false,
    durability: becalm_host::write::Durability::Synced,
};

/// Applies a strategy to a site; gives the variables that programs are then started with, and what
/// a reader should know.
///
/// # Errors
/// Why it could not be applied at all.
pub(crate) fn apply(kind: Kind, site: &Site<'_>) -> Result<(Variables, Option<String>)> {
    let (variables, report) = put(kind, site, &plain_assumptions())?;
    let Some(report) = report else { return Ok((variables, None)) };
    let refused = refusals(&report);
    let written = report.files.iter().chain(&report.made).any(|file| file.outcome.is_written());
    let remark = match refused.as_slice() {
        [] => None,
        [first, ..] if !written => bail!("{first}"),
        [one] => Some(one.clone()),
        [first, rest @ ..] => Some(format!("{first}, and {} more", rest.len())),
    };
    Ok((variables, remark))
}

/// As [`apply`], under what is assumed of the machine, and what the strategy reports.
///
/// # Errors
/// Why it could not be applied.
pub(crate) fn put(
    kind: Kind,
    site: &Site<'_>,
    assumed: &assume::Options,
) -> Result<(Variables, Option<Report>)> {
    if kind == Kind::Strategy(Compared::Index) {
        return Ok((index(site)?, None));
    }
    let Some(strategy) = kind.fix() else { return Ok((Vec::new(), None)) };
    let paths = if kind.is_of_program() { site.programs } else { site.objects };
    // Two programs that share libraries have no whole-graph farm in common.
    let at_once = match kind {
        Kind::Strategy(Compared::Farm) => 1,
        _ => paths.len().max(1),
    };
    let reports = here(|| {
        let fixed = paths.chunks(at_once).map(|paths| fixed(site, strategy, paths, assumed));
        fixed.collect::<Result<Vec<Report>>>()
    })??;
    Ok((Vec::new(), reports.into_iter().reduce(joined)))
}

/// Runs work with threads that are in the mount namespace of this one.
fn here<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T> {
    Ok(rayon::ThreadPoolBuilder::new().build()?.install(work))
}

fn fixed(
    site: &Site<'_>,
    (with, resolve, closure): (Strategy, Resolve, bool),
    paths: &[PathBuf],
    assumed: &assume::Options,
) -> Result<Report> {
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
pub(crate) fn plain_assumptions() -> assume::Options {
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
pub(crate) fn refusals(report: &Report) -> Vec<String> {
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

/// Indexes the stores; the variables of `becalm env`.
fn index(site: &Site<'_>) -> Result<Variables> {
    let options = make::Options {
        stores: site.prefixes.to_vec(),
        prefixes: StorePrefixes(site.stores.to_owned()).paths(),
        output: Some(site.index.clone()),
        ..make::Options::default()
    };
    here(|| make::index(&options, &Silent))??;
    let opened = file::open(&site.index)?;
    let module = platforms::audit_path(&opened);
    let mut variables = vec![(variables::AUDIT.into(), variables::with_module(None, &module))];
    let tunables = variables::with_static_tls(None, opened.session_static_tls()?);
    variables.push((variables::TUNABLES.into(), tunables));
    Ok(variables)
}

/// Reverts what a strategy changed; `Err` says what could not be.
///
/// # Errors
/// No thread can be started.
pub(crate) fn revert(paths: &[PathBuf]) -> Result<Result<(), String>> {
    let options = undo::Options { writing: WRITING, ..undo::Options::default() };
    let report = here(|| undo::undo(paths, &options, &Silent))?;
    if !report.has_failed() {
        return Ok(Ok(()));
    }
    let line = |path: &BStr, why: &str| format!("{}: {why}", becalm_lib::escape::shown(path));
    let refused = report.files.iter().chain(&report.removed);
    let refused =
        refused.filter_map(|file| Some(line(file.path.as_ref(), refusal(file)?))).next_back();
    let problem = report.problems.last().map(|it| line(it.path.as_ref(), &it.reason));
    Ok(Err(refused.or(problem).unwrap_or_default()))
}

/// A command of becalm's, whose temporary files go to `place`: where it is killed, nobody else
/// removes them.
pub(crate) fn becalm(path: &Path, place: Option<&Path>) -> std::process::Command {
    let mut command = std::process::Command::new(path);
    plain(&mut command);
    command.envs(place.map(|place| ("TMPDIR", place)));
    command
}

/// Takes away what the user's environment tells loaders.
pub(crate) fn plain(command: &mut std::process::Command) {
    for name in [
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "LD_AUDIT",
        "LD_DEBUG",
        "LD_DEBUG_OUTPUT",
        "LD_BIND_NOW",
        "GLIBC_TUNABLES",
        "BECALM",
    ] {
        command.env_remove(name);
    }
    command.stdin(std::process::Stdio::null());
}

/// The last line that says something, without the name of the program that says it.
pub(crate) fn last_line(text: &[u8]) -> String {
    let line = text.lines().rfind(|line| !line.trim_ascii().is_empty()).unwrap_or_default();
    let line = line.strip_prefix(b"becalm: ").unwrap_or(line);
    becalm_lib::escape::shown(line.trim_ascii().as_bstr())
}
