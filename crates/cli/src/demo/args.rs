//! The arguments of `becalm demo`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};

use crate::common_args::seconds;

/// The flags of `becalm demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// The program; without it, the one of /usr/bin with the most libraries
    #[arg(value_name = "PROGRAM", value_hint = ValueHint::CommandName)]
    pub program: Option<PathBuf>,

    /// The arguments it is run with; without them, `--version`
    #[arg(last = true, requires = "program", value_name = "ARGS")]
    pub args: Vec<OsString>,

    /// Keep the store and its index: a new folder
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub keep: Option<PathBuf>,

    /// Kill a run that takes longer, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "20", value_parser = seconds)]
    pub time_limit: Duration,
}
