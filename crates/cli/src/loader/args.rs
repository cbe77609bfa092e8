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
    /// Fetches Debian's glibc-source of the release through apt, with its own lists and cache and
    /// the mirror of this machine's apt configuration; applies becalm's patches; builds; installs
    /// into the prefix only. The package and the built files stay in the cache folder
    /// ($XDG_CACHE_HOME/becalm/loader), so that a second run only copies.
    Build(BuildArgs),
    /// Test whether a loader reads notes and package caches
    ///
    /// A fixture of a few hundred bytes is resolved, not run. Complete notes are always tested.
    /// Caches are read in stores only, so testing them needs one of the store prefixes that the
    /// loader was built with. The exit code is 1 if the loader reads neither.
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

    /// Store prefixes to compile in: the loader reads package caches only below them
    #[arg(long, value_name = "A:B", default_value = "/nix/store:/gnu/store")]
    pub store: String,

    /// Build and install only the loader and libc.so.6
    ///
    /// These two must be of the same build. The other libraries of glibc, such as libm.so.6, may
    /// come from another build of the same release.
    #[arg(long)]
    pub minimal: bool,

    /// Build without the patch, for comparison
    #[arg(long)]
    pub unpatched: bool,

    /// A glibc-source package that is already here; nothing is fetched
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

    /// One of the loader's store prefixes, in which to test a package cache
    ///
    /// A package is made in it and removed again.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub store: Option<PathBuf>,

    /// Write one JSON object, schema becalm/loader/1
    #[arg(long)]
    pub json: bool,
}
