//! The arguments of `becalm compare`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use becalm_lib::compare::Options;
use becalm_lib::compare::kind::Compared;
use clap::{Args, ValueHint};

use crate::bench::variants;
use crate::common_args::{StoreArg, seconds};

/// The flags of `becalm compare`.
#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// The program: a path, or a name that is searched along PATH
    #[arg(value_name = "PROGRAM", value_hint = ValueHint::CommandName)]
    pub program: PathBuf,

    /// The arguments for the program; without them and --run, `--version`
    #[arg(last = true, value_name = "ARGS")]
    pub args: Vec<OsString>,

    /// The arguments as one line, split as by a shell; '' for none
    #[arg(
        long,
        value_name = "LINE",
        allow_hyphen_values = true,
        conflicts_with = "args",
        help_heading = "Program"
    )]
    pub run: Option<String>,

    /// Kill a run that takes longer, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds, help_heading = "Program")]
    pub time_limit: Duration,

    /// Compare starts that end with an exit code other than 0 as well
    #[arg(short, long, help_heading = "Program")]
    pub ignore_failure: bool,

    /// The strategies to compare, besides the untouched control; without it, all
    #[arg(
        long,
        alias = "carriers",
        value_name = "STRATEGY,…",
        value_delimiter = ',',
        help_heading = "Comparison"
    )]
    pub strategies: Vec<Compared>,

    /// A static build of the program, as another column
    #[arg(long = "static", value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Comparison")]
    pub static_build: Option<PathBuf>,

    /// A loader that reads notes and package caches, with its libc.so.6 beside it
    ///
    /// `becalm loader build` makes one. Notes and caches are tested only with it. It replaces the
    /// program's own loader for these strategies, and for a control of their own.
    #[arg(long, value_name = "LD.SO", value_hint = ValueHint::FilePath, help_heading = "Comparison")]
    pub loader: Option<PathBuf>,

    /// Rounds in which the whole start is timed; without it, as many as fit into half a minute, 10
    /// at least
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u16).range(1..=2000),
        help_heading = "Comparison"
    )]
    pub runs: Option<u16>,

    /// Skip the properties, which are tested on programs built for it; only measure
    #[arg(long, help_heading = "Comparison")]
    pub no_trials: bool,

    /// Write one JSON object, schema becalm/compare/1
    #[arg(long, help_heading = "Output")]
    pub json: bool,

    /// Write a table for a page
    #[arg(long, conflicts_with = "json", help_heading = "Output")]
    pub markdown: bool,

    /// The store prefixes.
    #[command(flatten)]
    pub store: StoreArg,
}

impl CompareArgs {
    /// Returns the library's options for the comparison.
    ///
    /// # Errors
    /// Returns an error if a quote in the line of `--run` is not closed.
    pub(crate) fn options(&self) -> Result<Options> {
        Ok(Options {
            name: self.program.clone(),
            args: variants::arguments(self.run.as_deref(), &self.args)?,
            strategies: self.strategies.clone(),
            static_build: self.static_build.clone(),
            loader: self.loader.clone(),
            rounds: self.runs.map(usize::from),
            time_limit: self.time_limit,
            accept_failure: self.ignore_failure,
            with_trials: !self.no_trials,
        })
    }
}
