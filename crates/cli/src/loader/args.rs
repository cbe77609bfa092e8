//! The flags of `becalm loader`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

/// Loader commands.
#[derive(Debug, Subcommand)]
pub(crate) enum LoaderArgs {
    /// Test whether a loader reads notes and package caches
    ///
    /// A fixture of a few hundred bytes is resolved, not run. Complete notes are always tested.
    /// Caches are read in stores only, so testing them needs one of the store prefixes that the
    /// loader was built with. The exit code is 1 if the loader reads neither.
    Check(TryArgs),
}

/// The flags of `becalm loader check`.
#[derive(Debug, Args)]
pub(crate) struct TryArgs {
    /// The loader
    #[arg(value_name = "LD.SO", value_hint = ValueHint::FilePath)]
    pub loader: PathBuf,

    /// One of the loader's store prefixes, in which to test a package cache
    ///
    /// A package is made in it and removed again.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub store: Option<PathBuf>,

    /// Write one JSON object, schema becalm/loader/1
    #[arg(long)]
    pub json: bool,
}
