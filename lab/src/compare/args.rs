//! The arguments of `lab compare`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use becalm_lib::assume::{DEFAULT_STORES, StorePrefixes};
use clap::{Args, ValueHint};

use crate::compare::kind::Kind;

/// Tries every strategy on a copy of a program's closure.
#[derive(Args)]
#[command(after_long_help = include_str!("help.txt"))]
pub(crate) struct CompareArgs {
    /// The program: a path, or a name that is searched along PATH
    #[arg(value_name = "PROGRAM", value_hint = ValueHint::CommandName)]
    pub program: PathBuf,

    /// The arguments for the program; without them and --run, `--version`
    #[arg(last = true, value_name = "ARGS")]
    pub args: Vec<OsString>,

    /// The arguments as one line, split as by a shell; '' for none
    #[arg(long, value_name = "LINE", allow_hyphen_values = true, conflicts_with = "args")]
    pub run: Option<String>,

    /// Kill a run that takes longer, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    pub time_limit: f64,

    /// Compare starts that end with an exit code other than 0 as well
    #[arg(short, long)]
    pub ignore_failure: bool,

    /// The strategies to compare, besides the untouched control; without it, all
    #[arg(long, value_name = "STRATEGY,…", value_delimiter = ',')]
    pub strategies: Vec<Kind>,

    /// A static build of the program, as another column
    #[arg(long = "static", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub static_build: Option<PathBuf>,

    /// A loader that reads notes and package caches, with its libc.so.6 beside it
    ///
    /// `lab build-loader` makes one. Notes and caches are tested only with it. It replaces the
    /// program's own loader for these strategies, and for a control of their own.
    #[arg(long, value_name = "LD.SO", value_hint = ValueHint::FilePath)]
    pub loader: Option<PathBuf>,

    /// Rounds in which the whole start is timed; without it, as many as fit into half a minute, 10
    /// at least
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u16).range(1..=2000)
    )]
    pub runs: Option<u16>,

    /// Skip the properties, which are tested on programs built for it; only measure
    #[arg(long)]
    pub no_trials: bool,

    /// Write one JSON object, schema becalm/compare/1
    #[arg(long)]
    pub json: bool,

    /// Write a table for a page
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,

    /// Prefixes of stores: directories below one never change once made; may be repeated
    #[arg(long, value_name = "A:B", default_value = DEFAULT_STORES)]
    pub store: Vec<OsString>,
}

impl CompareArgs {
    /// Returns the program's arguments.
    ///
    /// # Errors
    /// Returns an error if a quote in the line of `--run` is not closed.
    pub(super) fn program_args(&self) -> Result<Vec<OsString>> {
        Ok(match &self.run {
            Some(line) => {
                let words = shlex::split(line).context("--run: a quote is not closed")?;
                words.into_iter().map(OsString::from).collect()
            }
            None if self.args.is_empty() => vec!["--version".into()],
            None => self.args.clone(),
        })
    }

    /// Returns the time after which a start is killed.
    ///
    /// # Errors
    /// Returns an error if it is negative or too long.
    pub(super) fn limit(&self) -> Result<Duration> {
        Duration::try_from_secs_f64(self.time_limit).context("--time-limit")
    }

    /// Returns the store prefixes.
    pub(super) fn prefixes(&self) -> StorePrefixes {
        StorePrefixes { store: self.store.clone() }
    }
}
