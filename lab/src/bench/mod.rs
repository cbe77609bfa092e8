//! `lab bench`: what becalm costs, beside other tools that answer part of its question.
//!
//! [`check`] measures `becalm check` and writes it down; [`list`] chooses the files,
//! [`tools`] holds the command lines, [`run`] measures one of them once, [`closures`]
//! counts what each tool resolved, [`summary`] makes ratios of the rounds, [`machine`]
//! says where all this was. [`calm`] measures what an index is worth, [`trace`] the cost of
//! watching a start, [`fix`] that of writing notes, [`loader`] what a patched loader makes of
//! notes and package caches, [`strategies`] counts the misses that each strategy leaves.

mod calm;
mod check;
mod closures;
mod fix;
mod list;
mod loader;
mod machine;
mod run;
mod strategies;
mod summary;
mod tools;
mod trace;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};

pub(crate) use check::CheckBench;
pub(crate) use fix::FixBench;
pub(crate) use loader::LoaderBench;
pub(crate) use strategies::StrategiesBench;
pub(crate) use summary::Spread;

/// What can be measured.
#[derive(Subcommand)]
pub(crate) enum Bench {
    /// `becalm check` beside libtree and lddtree, on one list of files
    Check(CheckBench),
    /// `becalm fix` and `undo` beside patchelf, on a store of many objects
    Fix(FixBench),
    /// Misses and system calls of the loader with each strategy, for every program of a store
    Strategies(StrategiesBench),
    /// Programs of a store by a stock and by a patched loader, with notes and with caches
    Loader(LoaderBench),
    /// Programs of a store as they are, calmed by an index, and in one ordinary directory
    Calm {
        #[command(flatten)]
        common: Common,
        /// This program alone; may be repeated
        #[arg(long, value_name = "NAME")]
        only: Vec<String>,
    },
    /// Programs of a store untraced, under becalm trace, and under strace
    Trace(Common),
}

/// What both measurements of starts take.
#[derive(Args)]
pub(crate) struct Common {
    /// The store
    #[arg(long, default_value = "target/lab/store")]
    store: PathBuf,
    /// The becalm to measure
    #[arg(long, default_value = "target/release/becalm")]
    becalm: PathBuf,
    /// Rounds; in each, every way is taken once
    #[arg(long, default_value_t = 20)]
    rounds: usize,
    /// Where the raw times go, one JSON object
    #[arg(long)]
    raw: Option<PathBuf>,
}

impl Common {
    /// Writes raw data where that is asked for, with what the machine was.
    fn write(&self, mut data: serde_json::Value) -> Result<()> {
        let Some(raw) = &self.raw else { return Ok(()) };
        let read = |file| fs::read_to_string(file).unwrap_or_default().trim().to_owned();
        let cpus = std::thread::available_parallelism().map_or(0, usize::from);
        data["machine"] = read("/proc/version").into();
        data["cpus"] = cpus.into();
        data["load_afterwards"] = read("/proc/loadavg").into();
        fs::write(raw, data.to_string()).with_context(|| raw.display().to_string())
    }
}

/// Measures.
///
/// # Errors
/// A tool is missing or cannot be run, or the raw data cannot be written.
pub(crate) fn run(bench: &Bench) -> Result<()> {
    match bench {
        Bench::Check(args) => check::run(args),
        Bench::Fix(args) => fix::run(args),
        Bench::Loader(args) => loader::run(args),
        Bench::Calm { common, only } => calm::run(common, only),
        Bench::Strategies(args) => strategies::run(args),
        Bench::Trace(common) => trace::run(common),
    }
}
