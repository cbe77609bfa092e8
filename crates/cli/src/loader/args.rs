//! The flags of `becalm loader`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use becalm_lib::loader::Release;
use clap::{Args, Subcommand, ValueHint};

/// Loader commands.
#[derive(Debug, Subcommand)]
pub(crate) enum LoaderArgs {
    /// Build a glibc whose loader reads notes and package caches
    ///
    /// Fetches Debian's glibc-source of the release through apt, with lists and a cache
    /// of its own and the mirror that this machine's apt is set up with; applies becalm's
    /// patches; builds; installs into the prefix and nowhere else. What was fetched and what
    /// is to be installed stays in the cache folder ($XDG_CACHE_HOME/becalm/loader), so that
    /// a second run only copies.
    Build(BuildArgs),
    /// Say what a loader reads, by trying it
    ///
    /// A fixture of a few hundred bytes is resolved, not run. Notes are always tried.
    /// Caches are read in stores only, so trying them needs one of the store prefixes that
    /// the loader was built with. Exit 1 where the loader reads neither.
    Check(TryArgs),
}

/// The flags of `becalm loader build`.
#[derive(Debug, Args)]
pub(crate) struct BuildArgs {
    /// The release: 2.36, 2.41, 2.43 or 2.44
    #[arg(long, value_name = "VERSION")]
    pub glibc: Release,

    /// Install directory; an absolute path, compiled in
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub prefix: PathBuf,

    /// Store prefixes to compile in: where the loader believes package caches
    #[arg(long, value_name = "A:B", default_value = "/nix/store:/gnu/store")]
    pub store: String,

    /// Build and install no more than the loader and libc.so.6
    ///
    /// These two belong together. The other libraries of glibc, such as libm.so.6, may be
    /// those of the same release from elsewhere.
    #[arg(long)]
    pub minimal: bool,

    /// Leave the patch out: the same build, to compare with
    #[arg(long)]
    pub unpatched: bool,

    /// A glibc-source package at hand; nothing is fetched
    #[arg(long, value_name = "DEB", value_hint = ValueHint::FilePath)]
    pub source: Option<PathBuf>,

    /// Processes to build with; without it, as many as there are CPUs
    #[arg(short, long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
}

/// The flags of `becalm loader check`.
#[derive(Debug, Args)]
pub(crate) struct TryArgs {
    /// The loader
    #[arg(value_name = "LD.SO", value_hint = ValueHint::FilePath)]
    pub loader: PathBuf,

    /// One of the loader's store prefixes, to try a package cache in
    ///
    /// A package is made in it and taken away again.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub store: Option<PathBuf>,

    /// Write one JSON object, schema becalm/loader/1
    #[arg(long)]
    pub json: bool,
}
