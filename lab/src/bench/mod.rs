//! `lab bench`: measures becalm in comparison with other tools that do part of its work.
//!
//! [`check`] measures `becalm check` and records it. [`tools`] has the command lines, [`run`] measures
//! one of them once, [`closures`] counts the objects that each tool resolved, [`summary`] computes
//! ratios of the rounds, and [`machine`] describes the machine. [`calm`] measures the effect of an
//! index, [`bind`] that of its bindings, [`start`] what `becalm run` adds to a start, [`on`] what
//! `becalm on` gives, [`trace`] the cost of tracing a start, [`fix`] that of writing notes into a store
//! that [`multiply`] makes, and [`loader`] the effect of notes and package caches with a patched loader.
//! [`strategies`] counts the misses that each strategy leaves, [`ahead`] measures cold starts, [`trees`]
//! starts on a slow file system, and [`estimate`] compares estimated starts. The threads of [`busy`] read
//! from the same disk meanwhile.

mod ahead;
mod bind;
mod busy;
mod calm;
mod check;
mod closures;
mod estimate;
mod fix;
mod loader;
mod machine;
mod multiply;
mod on;
mod paths;
mod run;
mod start;
mod strategies;
mod summary;
mod tools;
mod trace;
mod trees;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, Subcommand};

use crate::words::naming;

pub(crate) use summary::Spread;

/// A measurement.
#[derive(Subcommand)]
pub(crate) enum Bench {
    /// `becalm check` in comparison with libtree and lddtree, on one list of files
    Check(check::CheckBench),
    /// `becalm fix` and `undo` in comparison with patchelf, on a store of many objects
    Fix(fix::FixBench),
    /// Misses and system calls of the loader with each strategy, for every program of a store
    Strategies(strategies::StrategiesBench),
    /// Programs of a store with a stock and a patched loader, with notes and with caches
    Loader(loader::LoaderBench),
    /// Programs of a store without and with an index, and in one ordinary directory
    Calm(Common),
    /// Programs of /usr/bin and of a store as they are, and with bindings from an index
    Bind(Common),
    /// Programs as they are, in the environment of `becalm env`, and started by `becalm run`
    Start(Common),
    /// Programs that `becalm on` has switched on, and others with its folder in `PATH`
    On(Common),
    /// Searches that interpreters and programs make themselves, in one directory, in a store, and
    /// answered
    Paths(paths::PathsBench),
    /// Cold starts of a program: as it is, with its pages read ahead, and with whole files read ahead
    Ahead(ahead::AheadBench),
    /// A program whose tree is on a slow file system: as it is, and by `becalm run`
    Trees(trees::TreesBench),
    /// Programs of a store untraced, under becalm trace, and under strace
    Trace(Common),
    /// The estimates of `becalm check` in comparison with measured starts
    Estimate(Common),
}

/// Options of the measurements of starts.
#[derive(Args)]
pub(crate) struct Common {
    /// The store
    #[arg(long, default_value = "target/lab/store")]
    store: PathBuf,
    /// The becalm to measure
    #[arg(long, default_value = "target/release/becalm")]
    becalm: PathBuf,
    /// Number of rounds; each runs every variant once
    #[arg(long, default_value_t = 20)]
    rounds: usize,
    /// File for the raw times, one JSON object
    #[arg(long)]
    raw: Option<PathBuf>,
    /// Only this program; may be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
}

impl Common {
    fn is_wanted(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|wanted| wanted == name)
    }

    fn write(&self, data: serde_json::Value) -> Result<()> {
        write_raw(self.raw.as_deref(), data)
    }
}

/// Measures variants in rounds. Each round takes every variant once, and begins with another one, so that none
/// always follows the same one. `measure` gets the number of the round and that of the variant.
fn rounds<T>(
    rounds: usize,
    variants: usize,
    mut measure: impl FnMut(usize, usize) -> Result<T>,
) -> Result<Vec<Vec<T>>> {
    let mut all: Vec<Vec<T>> = (0..variants).map(|_| Vec::new()).collect();
    for round in 0..rounds {
        for step in 0..variants {
            let at = (round + step) % variants;
            all[at].push(measure(round, at)?);
        }
    }
    Ok(all)
}

/// Writes the paths of files into a temporary file, one a line.
fn listed(files: &[PathBuf]) -> Result<tempfile::NamedTempFile> {
    let list = tempfile::NamedTempFile::new()?;
    let lines: String = files.iter().map(|file| format!("{}\n", file.display())).collect();
    fs::write(list.path(), lines)?;
    Ok(list)
}

/// Writes raw data and the machine's description, if the options name a file.
fn write_raw(raw: Option<&Path>, mut data: serde_json::Value) -> Result<()> {
    let read = |file| fs::read_to_string(file).unwrap_or_default().trim().to_owned();
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    data["machine"] = read("/proc/version").into();
    data["cpus"] = cpus.into();
    data["load_afterwards"] = read("/proc/loadavg").into();
    write_text(raw, &data.to_string())
}

/// Writes a text, if the options name a file.
pub(crate) fn write_text(raw: Option<&Path>, text: &str) -> Result<()> {
    raw.map_or(Ok(()), |raw| fs::write(raw, text).with_context(naming(raw)))
}

/// Runs a measurement.
///
/// # Errors
/// Returns an error if a tool is missing or fails, or the raw data cannot be written.
pub(crate) fn run(bench: &Bench) -> Result<()> {
    match bench {
        Bench::Check(args) => check::run(args),
        Bench::Fix(args) => fix::run(args),
        Bench::Loader(args) => loader::run(args),
        Bench::Calm(args) => calm::run(args),
        Bench::Bind(args) => bind::run(args),
        Bench::Start(args) => start::run(args),
        Bench::On(args) => on::run(args),
        Bench::Paths(args) => paths::run(args),
        Bench::Strategies(args) => strategies::run(args),
        Bench::Ahead(args) => ahead::run(args),
        Bench::Trees(args) => trees::run(args),
        Bench::Trace(args) => trace::run(args),
        Bench::Estimate(args) => estimate::run(args),
    }
}
