//! The arguments of `becalm fix`.

use std::num::NonZeroUsize;

use becalm_lib::fix::options::Options;
use clap::Args;

/// The flags of `becalm fix`.
#[derive(Debug, Args)]
pub(crate) struct FixArgs {
    /// The flags of the plan.
    #[command(flatten)]
    pub options: Options,

    /// Write one JSON object, schema becalm/fix/1
    #[arg(long, help_heading = "Output")]
    pub json: bool,

    /// Files to work on at once; without it, as many as there are CPUs
    #[arg(short, long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
}
