//! One traced start of a column: the loaded objects, and the failed lookups.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use becalm_core::probe::{Call, Outcome};
use becalm_host::child;
use becalm_host::trace::{Command, Exit, Streams, TraceError};

use crate::compare::apply::last_line;
use crate::compare::args::CompareArgs;
use crate::compare::column::Column;
use becalm_lib::compare::apply::environment;
use becalm_lib::path::path_of;
use becalm_lib::trace::observe::watch;
use becalm_lib::trace::options::Options;
use becalm_lib::trace::report::Seen;

/// The outcome of a start.
#[derive(Debug)]
pub(super) struct Figures {
    /// The files of the objects that the loader found, links resolved, in order; without the
    /// program, its loader and the audit modules of becalm.
    pub objects: Vec<PathBuf>,
    /// Failed opens and stats in hwcaps subdirectories.
    pub hwcaps: u64,
    /// The start as the tracer saw it.
    pub seen: Seen,
}

/// Settings for running the program.
pub(super) struct Runs<'a> {
    /// The arguments of the comparison.
    pub options: &'a CompareArgs,
    /// A directory for the program's output.
    pub place: &'a Path,
    /// The program's arguments.
    pub args: Vec<OsString>,
    /// The time after which the program is killed.
    pub limit: Duration,
    /// The names of hwcaps subdirectories.
    pub hwcaps: Vec<OsString>,
}

/// Starts a column's program once under the tracer.
///
/// # Errors
/// Returns an error if the program does not run, or cannot be traced.
pub(super) fn of(column: &Column, runs: &Runs<'_>) -> Result<Figures> {
    column.mount_namespace.run(|| watched(column, runs))?
}

fn watched(column: &Column, runs: &Runs<'_>) -> Result<Figures> {
    let in_place = || runs.place.display().to_string();
    let mut said = tempfile::tempfile_in(runs.place).with_context(in_place)?;
    let streams = said.try_clone().and_then(Streams::with_stderr);
    let mut command = Command::new(&column.program, runs.args.iter().cloned());
    command.env = Some(environment(&column.done.variables));
    command.streams = Some(streams.with_context(in_place)?);
    let options = Options { relocations: true, ..Options::default() };
    let report =
        watch(&options, &command, runs.limit).map_err(|error| match error.downcast_ref() {
            Some(TraceError::TooLong { limit, .. }) => {
                anyhow!("did not end within {} s and was killed", limit.as_secs_f64())
            }
            _ => error,
        })?;
    let exit = report.exit;
    let first = report.images.into_iter().next();
    let Some(seen) = first.filter(|seen| seen.reached_entry) else {
        return Err(failed(&mut said, "its loader gave up".to_owned()));
    };
    match exit.and_then(Exit::code).unwrap_or(0) {
        0 => {}
        _ if runs.options.ignore_failure => {}
        code => return Err(failed(&mut said, format!("exit code {code}"))),
    }
    Ok(figures(seen, column, &runs.hwcaps))
}

/// Returns the error of a failed start, with the last line that the program wrote.
fn failed(said: &mut File, how: String) -> anyhow::Error {
    match child::last_line(said) {
        Some(line) => anyhow!("{how}: {}", last_line(&line)),
        None => anyhow!(how),
    }
}

fn figures(seen: Seen, column: &Column, hwcaps: &[OsString]) -> Figures {
    let mut figures = Figures { objects: Vec::new(), hwcaps: 0, seen };
    let ours: Vec<PathBuf> = column.own_modules();
    let mut known = HashSet::new();
    for probe in &figures.seen.probes {
        let path = path_of(probe.path.as_ref());
        let is_open = probe.call == Call::Open;
        if probe.outcome == Outcome::Hit {
            let real = path.canonicalize().unwrap_or(path);
            // A loader cache is not an object.
            let is_object = is_open && !real.ends_with("ld.so.cache");
            if is_object && !ours.contains(&real) && known.insert(real.clone()) {
                figures.objects.push(real);
            }
            continue;
        }
        let dir = if is_open { path.parent() } else { Some(path.as_path()) };
        figures.hwcaps += u64::from(dir.is_some_and(|dir| is_hwcaps(dir, hwcaps)));
    }
    figures
}

/// True for a hwcaps subdirectory: one below `glibc-hwcaps`, or one with a name in `names`.
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
