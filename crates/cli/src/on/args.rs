//! The arguments of `becalm on` and `becalm off`.

use std::ffi::OsString;

use clap::{Args, ValueHint};

/// The flags of `becalm on`.
#[derive(Debug, Args)]
pub(crate) struct OnArgs {
    /// Names of programs in PATH, or paths; without any, every program that gains
    #[arg(value_name = "PROGRAM", value_hint = ValueHint::CommandName)]
    pub programs: Vec<OsString>,

    /// For all users: the folder is /var/lib/becalm/on
    #[arg(long)]
    pub system: bool,

    /// Print what would be switched on; write nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,

    /// Print what is switched on, and whether it is fresh
    #[arg(long, conflicts_with_all = ["programs", "dry_run", "update"])]
    pub list: bool,

    /// Make the index of what is switched on again, after an upgrade
    #[arg(long, conflicts_with = "programs")]
    pub update: bool,

    /// Map the relocated pages of libraries from a file that all starts of a program share
    ///
    /// As becalm run --share-pages. Without this flag, programs that are switched on, also again, do not.
    #[arg(long, conflicts_with_all = ["system", "list", "update"])]
    pub share_pages: bool,

    /// Map no shared pages for these programs, also if they were switched on with --share-pages
    #[arg(long, requires = "programs", conflicts_with = "share_pages")]
    pub no_share_pages: bool,

    /// Write one JSON object, schema becalm/on/1
    #[arg(long)]
    pub json: bool,
}

/// The flags of `becalm off`.
#[derive(Debug, Args)]
pub(crate) struct OffArgs {
    /// Names of programs that are switched on; without any, all, and everything that was written
    #[arg(value_name = "PROGRAM")]
    pub programs: Vec<OsString>,

    /// For all users
    #[arg(long)]
    pub system: bool,

    /// Write one JSON object, schema becalm/off/1
    #[arg(long)]
    pub json: bool,
}
