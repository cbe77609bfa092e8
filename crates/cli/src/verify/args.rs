//! The arguments of `becalm verify`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use becalm_lib::assume;
use clap::{Args, ValueHint};

/// The flags of `becalm verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Indexes, objects with a note, absolute needed strings, a farm or a loader cache, programs
    /// with their own index (DT_AUDIT), or folders of them
    #[arg(required = true, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,

    /// Run the real loader on each program with and without its strategy, and compare
    ///
    /// If an index has symbol bindings, start each of its programs with and without them, up to its
    /// first constructor, and compare every relocated slot.
    #[arg(long)]
    pub load: bool,

    /// Write one JSON object, schema becalm/verify/1
    #[arg(long, help_heading = "Output")]
    pub json: bool,

    /// Assumptions about the machine.
    #[command(flatten)]
    pub assume: assume::Options,

    /// Files to work on at once; without it, as many as there are CPUs
    #[arg(short, long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
}
