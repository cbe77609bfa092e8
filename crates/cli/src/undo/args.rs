//! The arguments of `becalm undo`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use becalm_host::write::WriteOptions;
use clap::{Args, ValueHint};

/// The flags of `becalm undo`.
#[derive(Debug, Args)]
pub(crate) struct UndoArgs {
    /// Files that `becalm fix` changed, or folders of them
    #[arg(required = true, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,

    /// Show what would be restored; write nothing
    #[arg(short = 'n', long, help_heading = "Output")]
    pub dry_run: bool,

    /// Write one JSON object, schema becalm/undo/1
    #[arg(long, help_heading = "Output")]
    pub json: bool,

    /// How files are written.
    #[command(flatten)]
    pub writing: WriteOptions,

    /// Files to work on at once; without it, as many as there are CPUs
    #[arg(short, long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
}
