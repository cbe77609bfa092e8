//! `lab measure`: counts the real loader's work for each program of a store.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::child;
use crate::import::manifest::Manifest;

/// The loader's work for one program, up to its closure. No code of the program runs.
#[derive(Debug, Serialize)]
struct Measured {
    name: String,
    path: PathBuf,
    /// Number of loaded objects, without the program and the kernel's own.
    libraries: usize,
    /// Number of files tried, according to `LD_DEBUG=libs`.
    tried: usize,
    /// Number of failed opens, according to strace.
    missed_opens: usize,
    /// Number of failed stats, according to strace.
    missed_stats: usize,
}

/// Measures every program of the store at `store` and prints JSON.
///
/// # Errors
/// Returns an error if the store is not an imported one, or strace is missing.
pub(crate) fn run(store: &Path) -> Result<()> {
    let store = store.canonicalize().with_context(|| format!("{}", store.display()))?;
    let manifest = Manifest::read(&store)?.context("no imported store")?;
    let mut all = Vec::new();
    for program in &manifest.programs {
        let (tried, libraries) = debugged(&program.path)?;
        let (missed_opens, missed_stats) = traced(&program.path)?;
        all.push(Measured {
            name: program.name.clone(),
            path: program.path.clone(),
            libraries,
            tried,
            missed_opens,
            missed_stats,
        });
    }
    println!("{}", serde_json::to_string_pretty(&all)?);
    Ok(())
}

/// Returns the number of files tried and of libraries listed.
fn debugged(program: &Path) -> Result<(usize, usize)> {
    let mut command: Command = child::command(program);
    command.env("LD_TRACE_LOADED_OBJECTS", "1").env("LD_DEBUG", "libs");
    let run = child::finish(command)?;
    let tried = run.stderr.lines().filter(|line| line.contains("trying file=")).count();
    let listed = run.stdout.lines().filter(|line| line.contains('/')).count();
    Ok((tried, listed))
}

/// Returns the number of missed opens and missed stats.
fn traced(program: &Path) -> Result<(usize, usize)> {
    let log = tempfile::NamedTempFile::new()?;
    let mut command = child::command("strace");
    // The variable must not affect strace itself.
    command.args(["-E", "LD_TRACE_LOADED_OBJECTS=1"]);
    command.args(["-e", "trace=open,openat,stat,newfstatat,statx", "-o"]);
    command.arg(log.path()).arg(program);
    child::succeed(command)?;
    let text = std::fs::read_to_string(log.path())?;
    let missed = text.lines().filter(|line| line.contains(" = -1 E"));
    let (opens, stats): (Vec<&str>, Vec<&str>) = missed.partition(|line| line.starts_with("open"));
    Ok((opens.len(), stats.len()))
}
