//! The flags of `becalm index`, `becalm run` and `becalm env`.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

use super::StoreArg;

/// The flags of `becalm index`.
#[derive(Debug, Args)]
pub(crate) struct IndexArgs {
    /// Stores: folders below which nothing changes once it is there
    ///
    /// With --update the stores of the index, unless others are named.
    #[arg(value_name = "STORE", required_unless_present = "update", value_hint = ValueHint::DirPath)]
    pub stores: Vec<PathBuf>,

    /// Directories that LD_LIBRARY_PATH names, as separate arguments or as a list; may be
    /// repeated
    ///
    /// Their names are kept in the index, so that what is not in them costs nothing. One that
    /// has changed since is searched as always.
    #[arg(long, value_name = "A:B", help_heading = "What is indexed")]
    pub dirs: Vec<OsString>,

    /// Further prefixes of immutable directories, which are not walked
    #[command(flatten)]
    pub store: StoreArg,

    /// Where to write the index; without it, where `becalm run` and `becalm env` look for one
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub output: Option<PathBuf>,

    /// Look again only at what has changed since the index was made
    #[arg(long, help_heading = "What is indexed")]
    pub update: bool,

    /// The audit module to put the table into, instead of the built-in one
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub module: Option<PathBuf>,

    /// Write one JSON object, schema becalm/index/1
    #[arg(long, help_heading = "Output")]
    pub json: bool,

    /// Files to work on at once; without it, as many as there are CPUs
    #[arg(short, long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
}

/// The flags of `becalm run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The program to run, and its arguments
    #[arg(
        trailing_var_arg = true,
        value_name = "CMD",
        value_hint = ValueHint::CommandWithArguments
    )]
    pub command: Vec<OsString>,

    /// The index to use
    ///
    /// Without it the default index if the program is in one of its stores, else one that is made
    /// for this program and kept in the cache directory.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub index: Option<PathBuf>,

    /// Fail rather than start the program without an index; if one has to be made, wait for it
    #[arg(long)]
    pub strict: bool,

    /// Say nothing if the program is started without an index
    #[arg(short, long, conflicts_with = "strict")]
    pub quiet: bool,

    /// The store prefixes, for an index made for the program.
    #[command(flatten)]
    pub store: StoreArg,
}

/// The flags of `becalm env`.
#[derive(Debug, Args)]
pub(crate) struct EnvArgs {
    /// The index to use; without it the default one
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub index: Option<PathBuf>,

    /// What the lines are for
    #[arg(long = "for", value_name = "WHAT", default_value = "sh")]
    pub dialect: Dialect,

    /// Bytes of static TLS for the libraries of every program
    ///
    /// Without it what the programs of the index and those that PATH names need, at least 8192.
    /// More makes threads with small stacks fail: each thread's stack has to hold it.
    #[arg(long, value_name = "BYTES")]
    pub static_tls: Option<u64>,

    /// Print what undoes them instead
    #[arg(long)]
    pub undo: bool,
}

/// Who reads the lines of `becalm env`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Dialect {
    /// A POSIX shell: eval "$(becalm env)".
    Sh,
    /// fish: becalm env --for fish | source.
    Fish,
    /// A drop-in for a service or for a manager of services.
    Systemd,
    /// A NixOS module.
    Nixos,
    /// A file below /etc/profile.d, for every login shell.
    #[value(name = "profile.d")]
    ProfileD,
}
