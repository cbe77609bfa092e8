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
    /// The program: a path, or a name to be found along PATH
    #[arg(value_name = "PROGRAM", value_hint = ValueHint::CommandName)]
    pub program: PathBuf,

    /// The arguments it is run with; without them and --run, `--version`
    #[arg(last = true, value_name = "ARGS")]
    pub args: Vec<OsString>,

    /// The arguments as one line, taken apart as a shell would; '' for none
    #[arg(
        long,
        value_name = "LINE",
        allow_hyphen_values = true,
        conflicts_with = "args",
        help_heading = "What is run"
    )]
    pub run: Option<String>,

    /// Kill a run that takes longer, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds, help_heading = "What is run")]
    pub time_limit: Duration,

    /// Compare starts that end with an exit code other than 0 as well
    #[arg(short, long, help_heading = "What is run")]
    pub ignore_failure: bool,

    /// The strategies to compare, besides the untouched control; without it, all
    #[arg(
        long,
        alias = "carriers",
        value_name = "STRATEGY,…",
        value_delimiter = ',',
        help_heading = "What is compared"
    )]
    pub strategies: Vec<Compared>,

    /// A static build of the program, as another column
    #[arg(long = "static", value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "What is compared")]
    pub static_build: Option<PathBuf>,

    /// A loader that reads notes and package caches, with its libc.so.6 beside it
    ///
    /// `becalm loader build` makes one. Notes and caches are tried with it alone; it takes
    /// the place of the program's own for these, and for a control of their own.
    #[arg(long, value_name = "LD.SO", value_hint = ValueHint::FilePath, help_heading = "What is compared")]
    pub loader: Option<PathBuf>,

    /// Rounds in which the whole start is timed; without it, as many as fit into half a
    /// minute, 10 at the least
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u16).range(1..=2000),
        help_heading = "What is compared"
    )]
    pub runs: Option<u16>,

    /// Measure alone; leave out the properties, which are tried on programs built for it
    #[arg(long, help_heading = "What is compared")]
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
    /// The options of the comparison, as the library takes them.
    ///
    /// # Errors
    /// The line of `--run` has a quote that is not closed.
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
