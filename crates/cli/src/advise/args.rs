//! The arguments of `becalm advise`.

use std::path::PathBuf;

use becalm_lib::assume;
use clap::{Args, ValueHint};

/// The flags of `becalm advise`.
#[derive(Debug, Args)]
pub(crate) struct AdviseArgs {
    /// The program: a file, a script that leads to one, or a name that is searched along PATH
    #[arg(value_name = "PROGRAM", value_hint = ValueHint::FilePath)]
    pub program: PathBuf,

    /// Write one JSON object, schema becalm/advise/1
    #[arg(long, help_heading = "Output")]
    pub json: bool,

    /// Assumptions about the machine.
    #[command(flatten)]
    pub assume: assume::Options,
}
