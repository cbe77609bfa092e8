//! Strategies put on objects by becalm's own commands, as processes of their own.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use becalm_lib::index::{file, platforms, variables};
use bstr::ByteSlice;

use crate::compare::args::Compared;

/// What a column is about.
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
    /// What the column is called.
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

    /// The flags of `becalm fix`; none for what does not change the store.
    fn fix(self) -> Option<&'static [&'static str]> {
        let Self::Strategy(strategy) = self else { return None };
        Some(match strategy {
            Compared::Absolute => &["--with", "absolute"],
            Compared::AbsoluteLoader => &["--with", "absolute", "--resolve", "loader"],
            Compared::FarmLeaf => &["--with", "farm", "--leaf"],
            Compared::Farm => &["--with", "farm", "--closure"],
            Compared::Note => &["--with", "note"],
            Compared::Ldcache => &["--with", "ldcache"],
            Compared::Audit => &["--with", "audit"],
            Compared::Index => return None,
        })
    }

    /// Whether the program alone is handed to `becalm fix`, not all that it loads.
    fn is_of_program(self) -> bool {
        matches!(self, Self::Strategy(Compared::Farm | Compared::Audit))
    }
}

/// What a strategy is put on, and how becalm is asked to.
#[derive(Clone, Debug)]
pub(crate) struct Site<'a> {
    /// becalm itself.
    pub becalm: &'a Path,
    /// The programs.
    pub programs: &'a [PathBuf],
    /// All objects, the programs among them.
    pub objects: &'a [PathBuf],
    /// The prefixes to index.
    pub prefixes: &'a [PathBuf],
    /// For `--store`.
    pub stores: &'a OsStr,
    /// Where an index goes.
    pub index: PathBuf,
}

/// What a strategy needs of the environment.
pub(crate) type Variables = Vec<(OsString, OsString)>;

/// Applies a strategy to a site; gives the variables that programs are then started with, and what
/// a reader should know.
///
/// # Errors
/// Why it could not be put on at all.
pub(crate) fn apply(kind: Kind, site: &Site<'_>) -> Result<(Variables, Option<String>)> {
    let (variables, report) = put(kind, site, &[])?;
    let Some(report) = report else { return Ok((variables, None)) };
    let refused = refusals(&report);
    let written = ["files", "made"].iter().any(|list| {
        report[list].as_array().is_some_and(|all| all.iter().any(|f| f["status"] == "written"))
    });
    let remark = match refused.as_slice() {
        [] => None,
        [first, ..] if !written => bail!("{first}"),
        [one] => Some(one.clone()),
        [first, rest @ ..] => Some(format!("{first}, and {} more", rest.len())),
    };
    Ok((variables, remark))
}

/// As [`apply`], with further flags for `becalm fix`, and what that reports (`becalm/fix/1`).
///
/// # Errors
/// becalm reports nothing.
pub(crate) fn put(
    kind: Kind,
    site: &Site<'_>,
    more: &[&str],
) -> Result<(Variables, Option<serde_json::Value>)> {
    if kind == Kind::Strategy(Compared::Index) {
        return Ok((index(site)?, None));
    }
    let Some(flags) = kind.fix() else { return Ok((Vec::new(), None)) };
    let flags = [flags, more].concat();
    // Two programs that share libraries have no whole-graph farm in common.
    let reports: Vec<serde_json::Value> = match kind {
        Kind::Strategy(Compared::Farm) => {
            site.programs.chunks(1).map(|program| fix(site, &flags, program)).collect()
        }
        kind if kind.is_of_program() => fix(site, &flags, site.programs).map(|one| vec![one]),
        _ => fix(site, &flags, site.objects).map(|one| vec![one]),
    }?;
    Ok((Vec::new(), reports.into_iter().reduce(joined)))
}

/// What `becalm fix` reports of some files.
fn fix(site: &Site<'_>, flags: &[&str], paths: &[PathBuf]) -> Result<serde_json::Value> {
    let mut command = alone(site.becalm, site.index.parent());
    command.arg("fix").args(flags).args(["--hardlinks", "break", "--setuid", "--json"]);
    // What it costs is what is compared.
    command.arg("--allow-more-misses");
    command.arg("--store").arg(site.stores).arg("--").args(paths);
    let said = finish(&mut command)?;
    serde_json::from_slice(&said.stdout)
        .map_err(|_| anyhow!("becalm fix: {}", last_line(&said.stderr)))
}

/// One report with the lists of two.
fn joined(mut all: serde_json::Value, mut more: serde_json::Value) -> serde_json::Value {
    let lists = all.as_object_mut().into_iter().flatten();
    for (name, list) in lists.filter_map(|(name, list)| Some((name, list.as_array_mut()?))) {
        list.append(more[name.as_str()].as_array_mut().unwrap_or(&mut Vec::new()));
    }
    all
}

/// What `becalm fix --json` tells of files that it could not or would not change.
pub(crate) fn refusals(report: &serde_json::Value) -> Vec<String> {
    let list = |name: &str| report[name].as_array().cloned().unwrap_or_default();
    let reason = |entry: &serde_json::Value, why: &str| {
        let path = entry["path"].as_str().unwrap_or_default();
        let name = path.rsplit('/').next().unwrap_or_default();
        format!("{name}: {}", entry[why].as_str().unwrap_or("refused"))
    };
    let mut all: Vec<String> = list("errors").iter().map(|e| reason(e, "reason")).collect();
    let files = list("files").into_iter().chain(list("made"));
    all.extend(files.filter(|f| f["status"] == "refused").map(|f| reason(&f, "reason")));
    let findings = list("findings").into_iter();
    let grave = findings.filter(|f| f["severity"] == "conflict" || f["severity"] == "refused");
    all.extend(grave.map(|finding| reason(&finding, "what")));
    all
}

/// Indexes the stores; the variables of `becalm env`.
fn index(site: &Site<'_>) -> Result<Variables> {
    let mut command = alone(site.becalm, site.index.parent());
    command.arg("index").arg("--json").arg("-o").arg(&site.index);
    command.arg("--store").arg(site.stores).arg("--").args(site.prefixes);
    let said = finish(&mut command)?;
    if !site.index.exists() {
        bail!("becalm index: {}", last_line(&said.stderr));
    }
    let opened = file::open(&site.index)?;
    let module = platforms::audit_path(&opened);
    let mut variables = vec![(variables::AUDIT.into(), variables::with_module(None, &module))];
    let tunables = variables::with_static_tls(None, opened.session_static_tls()?);
    variables.push((variables::TUNABLES.into(), tunables));
    Ok(variables)
}

/// As [`becalm`], for one that finds no tool to help it.
pub(crate) fn alone(path: &Path, place: Option<&Path>) -> std::process::Command {
    let mut command = becalm(path, place);
    command.env("PATH", "/nonexistent");
    command
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

/// Runs a command to its end and takes what it says, where that goes nowhere else.
pub(crate) fn finish(command: &mut std::process::Command) -> Result<std::process::Output> {
    command.output().map_err(|error| anyhow!("becalm: {}", becalm_lib::words::words(&error)))
}

/// The last line that says something, without the name of the program that says it.
pub(crate) fn last_line(text: &[u8]) -> String {
    let line = text.lines().rfind(|line| !line.trim_ascii().is_empty()).unwrap_or_default();
    let line = line.strip_prefix(b"becalm: ").unwrap_or(line);
    becalm_lib::escape::shown(line.trim_ascii().as_bstr())
}
