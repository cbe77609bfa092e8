//! The arguments of `becalm doctor`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// The flags of `becalm doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// A program to examine as well: its start, its own index, whether it is switched on
    #[arg(value_name = "PROGRAM", value_hint = ValueHint::CommandName)]
    pub program: Option<PathBuf>,

    /// The index to check; without it, that of the session or else the default one
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub index: Option<PathBuf>,

    /// Write one JSON object, schema becalm/doctor/1
    #[arg(long)]
    pub json: bool,
}
