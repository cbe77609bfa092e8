//! The arguments of `becalm check`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use becalm_lib::assume;
use becalm_lib::check::budget::Budget;
use becalm_lib::survey::shard::Shard;
use clap::{Args, ValueHint};

use crate::check::files::args::FilesArgs;
use crate::check::symbols::args::SymbolArgs;
use crate::common_args::ReadsArg;

/// The flags of `becalm check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Programs, libraries, or folders of them; names are searched along PATH
    ///
    /// For a script, the program is checked that its first line names, also behind `env`, or that a
    /// wrapper script executes in its last line. Folders are not searched for scripts.
    #[arg(required = true, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,

    /// Show the dependency tree, with the source of each answer
    #[arg(long, conflicts_with_all = ["probes", "json"], help_heading = "Output")]
    pub tree: bool,

    /// Show every probe, one a line, in the loader's order
    ///
    /// Each line has the call, the outcome, the search source, the requester and the path. With
    /// --json, the probes become part of the object.
    #[arg(long, help_heading = "Output")]
    pub probes: bool,

    /// Write one JSON object, schema becalm/check/1
    #[arg(long, help_heading = "Output")]
    pub json: bool,

    /// Write one JSON object a line for each program, as soon as it is checked
    ///
    /// For surveys of very many files: nothing is kept, so memory does not grow with their number.
    /// The lines are in no particular order, schema becalm/survey/1; docs/survey.md has queries
    /// over them. Not together with --tree, --probes, --json, --against, --files, --symbols or
    /// --bindings.
    #[arg(
        long,
        conflicts_with_all = ["tree", "probes", "json", "against", "files", "symbols", "bindings"],
        help_heading = "Output"
    )]
    pub ndjson: bool,

    /// Check only share I of N of the files, for a survey by N machines
    ///
    /// Each file is in one share, by the hash of its path.
    #[arg(long, value_name = "I/N", requires = "ndjson", help_heading = "Output")]
    pub shard: Option<Shard>,

    /// Estimate the time of each program's start as well, for a survey by time
    #[arg(long, requires = "ndjson", help_heading = "Output")]
    pub times: bool,

    /// Flags about files.
    #[command(flatten)]
    pub files: FilesArgs,

    /// The most that a program may cost.
    #[command(flatten)]
    pub budget: Budget,

    /// Compare the prediction with the record of `becalm trace --json` in FILE
    ///
    /// One program is checked; the differences are listed, and the exit code is 1 if there are any.
    #[arg(
        long,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        conflicts_with_all = ["tree", "probes", "Budget"],
        help_heading = "Output"
    )]
    pub against: Option<PathBuf>,

    /// Predict the starts with this index, and show its answers
    ///
    /// As if LD_AUDIT named this index only. With --json every lookup is listed, with its answer.
    #[arg(
        long,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        conflicts_with_all = ["sysroot", "audit", "against"],
        help_heading = "Assumptions"
    )]
    pub index: Option<PathBuf>,

    /// Flags about symbols.
    #[command(flatten)]
    pub symbols: SymbolArgs,

    /// The formats that loaders read.
    #[command(flatten)]
    pub reads: ReadsArg,

    /// Assumptions about the machine.
    #[command(flatten)]
    pub assume: assume::Options,

    /// Programs to check at once; without it, as many as there are CPUs
    #[arg(short, long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
}
