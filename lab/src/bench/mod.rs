//! `lab bench`: measures becalm in comparison with other tools that do part of its work.
//!
//! [`check`] measures `becalm check`, and [`closures`] counts the objects that each tool resolved. [`calm`]
//! measures the effect of an index, [`bind`] that of its bindings, [`start`] what `becalm run` adds to a
//! start, [`on`] what `becalm on` gives, [`trace`] the cost of tracing a start, [`fix`] that of writing notes
//! into a large store, and [`loader`] the effect of notes and package caches with a patched
//! loader. [`strategies`] counts the misses that each strategy leaves, [`ahead`] measures cold starts,
//! [`trees`] starts on a slow file system, and [`estimate`] compares estimated starts. The threads of [`busy`]
//! read from the same disk meanwhile. [`machine`] describes the machine. Starts are timed by
//! [`becalm_host::bench`].

mod ahead;
mod bind;
mod busy;
pub(crate) mod calm;
mod check;
mod closures;
mod estimate;
mod fix;
mod loader;
mod machine;
mod on;
mod paths;
mod start;
mod strategies;
mod trace;
mod trees;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use becalm_host::bench::stats::Spread;
use clap::{Args, Subcommand};

use crate::words::naming;

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
        machine::write_raw(self.raw.as_deref(), &self.store, data)
    }
}

/// Returns the median of values, with the quartiles in brackets.
fn spread(values: impl IntoIterator<Item = f64>) -> String {
    let Spread { low, median, high, .. } = Spread::of(&values.into_iter().collect::<Vec<_>>());
    let digits = if median < 100.0 { 2 } else { 0 };
    format!("{median:.digits$} ({low:.digits$} to {high:.digits$})")
}

/// Writes the paths of files into a temporary file, one a line.
fn listed(files: &[PathBuf]) -> Result<tempfile::NamedTempFile> {
    let list = tempfile::NamedTempFile::new()?;
    let lines: String = files.iter().map(|file| format!("{}\n", file.display())).collect();
    fs::write(list.path(), lines)?;
    Ok(list)
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
