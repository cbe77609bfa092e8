//! One watched start of a column: what was loaded, and what was tried in vain. `becalm trace`
//! does the watching, as a process of its own, in the column's room.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use becalm_host::child;
use becalm_lib::words::words;
use serde_json::Value;

use crate::compare::apply::{becalm, last_line};
use crate::compare::column::{Column, in_words};

/// Results of a start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// The files of the objects that were found, links resolved, in order; without the program,
    /// its loader and what becalm has loaded besides.
    pub objects: Vec<PathBuf>,
    /// Failed opens of the loader.
    pub missed_opens: u64,
    /// Failed stats of the loader.
    pub missed_stats: u64,
    /// How many of both were for hwcaps subdirectories.
    pub hwcaps: u64,
}

/// How the program is run.
#[derive(Clone, Debug)]
pub(crate) struct Runs {
    /// becalm itself.
    pub becalm: PathBuf,
    /// Directory for records.
    pub place: PathBuf,
    /// The program's arguments.
    pub args: Vec<OsString>,
    /// How long it may take.
    pub limit: Duration,
    /// Whether an exit code other than 0 is fine.
    pub accept_failure: bool,
    /// The names of hwcaps subdirectories.
    pub hwcaps: Vec<OsString>,
}

/// Starts a column's program once, watched.
///
/// # Errors
/// One line that says why it does not run, or cannot be watched.
pub(crate) fn of(column: &Column, runs: &Runs) -> Result<Figures> {
    column.mount_namespace.run(|| watched(column, runs)).map_err(|error| in_words(&error))?
}

fn watched(column: &Column, runs: &Runs) -> Result<Figures> {
    let record = tempfile::NamedTempFile::new_in(&runs.place).context("no place for a record")?;
    let mut said = tempfile::tempfile_in(&runs.place).context("no place for a record")?;
    let mut command = becalm(&runs.becalm, Some(&runs.place));
    command.args(["trace", "--json", "-o"]).arg(record.path());
    command.arg("--").arg(&column.program).args(&runs.args);
    command.envs(column.variables.iter().map(|(name, value)| (name, value)));
    command.stdout(Stdio::null()).stderr(said.try_clone()?);
    let mut child = command.spawn().map_err(|error| anyhow!("becalm: {}", words(&error)))?;
    let Some(status) = child::status_within(&mut child, runs.limit)? else {
        let limit = runs.limit.as_secs_f64();
        return Err(anyhow!("did not end within {limit} s and was killed"));
    };
    let text = std::fs::read(record.path())?;
    let mut report: Value =
        serde_json::from_slice(&text).map_err(|_| why(&mut said, "not watched"))?;
    let image = report["images"].get_mut(0).map(Value::take).unwrap_or_default();
    if image["reached_entry"] != true {
        return Err(why(&mut said, "its loader gave up"));
    }
    if !status.success() && !runs.accept_failure {
        let how = match status.code() {
            Some(code) => format!("exit code {code}"),
            None => status.to_string(),
        };
        return Err(why(&mut said, &how));
    }
    Ok(figures(&image, column, &runs.hwcaps))
}

/// Returns an error with the last line that the program wrote.
fn why(said: &mut File, what: &str) -> anyhow::Error {
    match child::last_line(said) {
        None => anyhow!("{what}"),
        Some(line) => anyhow!("{what}: {}", last_line(&line)),
    }
}

fn figures(image: &Value, column: &Column, hwcaps: &[OsString]) -> Figures {
    let count = |name: &str| image["storm"][name].as_u64().unwrap_or(0);
    let mut figures = Figures {
        missed_opens: count("missed_opens"),
        missed_stats: count("missed_stats"),
        ..Figures::default()
    };
    let ours: Vec<PathBuf> = column.own_modules();
    let mut seen = HashSet::new();
    for probe in image["probes"].as_array().into_iter().flatten() {
        let path = Path::new(probe["path"].as_str().unwrap_or_default());
        let is_open = probe["call"] == "open";
        if probe["outcome"] == "hit" {
            let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
            // A loader cache is no object.
            let is_object = is_open && !real.ends_with("ld.so.cache");
            if is_object && !ours.contains(&real) && seen.insert(real.clone()) {
                figures.objects.push(real);
            }
            continue;
        }
        let dir = if is_open { path.parent() } else { Some(path) };
        figures.hwcaps += u64::from(dir.is_some_and(|dir| is_hwcaps(dir, hwcaps)));
    }
    figures
}

/// Whether a directory is one that a loader looks into for its CPU's sake.
fn is_hwcaps(dir: &Path, names: &[OsString]) -> bool {
    let is_new = dir.parent().is_some_and(|above| above.ends_with("glibc-hwcaps"));
    is_new || dir.file_name().is_some_and(|name| names.iter().any(|known| known == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_for_the_cpu_are_told_from_others() {
        let names = ["tls", "x86-64-v3"].map(OsString::from);
        let is = |dir: &str| is_hwcaps(Path::new(dir), &names);
        assert!(is("/s/lib/glibc-hwcaps/x86-64-v4") && is("/s/lib/haswell/tls"));
        assert!(!is("/s/tls/lib") && !is("/s/lib"));
    }
}
