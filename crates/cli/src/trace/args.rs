//! The flags of `becalm trace`.

use std::ffi::OsString;
use std::path::PathBuf;

use becalm_lib::assume::StorePrefixes;
use becalm_lib::trace::options::Options;
use clap::{Args, ValueEnum, ValueHint};

use crate::common_args::{ReadsArg, Until};

/// A form of the report for other programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Trace Event JSON.
    Chrome,
}

/// The flags of `becalm trace`.
#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    /// The program to run, and its arguments
    #[arg(
        trailing_var_arg = true,
        value_name = "CMD",
        value_hint = ValueHint::CommandWithArguments
    )]
    pub command: Vec<OsString>,

    /// Run nothing: show a log that the audit module wrote (BECALM=log:FILE)
    #[arg(
        long,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        conflicts_with_all = ["command", "syscalls", "follow", "until", "predict", "log", "reads"]
    )]
    pub from: Option<PathBuf>,

    /// Stop at every system call, for a histogram of all of them
    ///
    /// Without it, only the calls that look up files stop; all others run at full speed.
    #[arg(long, help_heading = "What is watched")]
    pub syscalls: bool,

    /// Time the relocation of the program's objects, in seven more starts
    ///
    /// They follow the traced start, so they find the files in memory.
    /// Each ends at the entry point: the constructors of the libraries run, and nothing of
    /// the program. The loader tells the time (LD_DEBUG=statistics) on x86_64, and how many
    /// symbols it looked up on every machine.
    #[arg(long, conflicts_with = "from", help_heading = "What is watched")]
    pub relocations: bool,

    /// Record the files that the program opens, to be read ahead of its next cold start
    ///
    /// becalm run records the pages of mapped files by itself. Files that are read, such as the
    /// modules of an interpreter, are in no page table; they are recorded here, up to the first MiB of
    /// each.
    #[arg(long, conflicts_with = "from", help_heading = "What is watched")]
    pub record: bool,

    /// List the files that the run used, one a line: the program, its libraries, what it opened, and the
    /// links that lead to each
    ///
    /// Files that it only looked up are not among them. With --follow, those of the processes that it starts
    /// too; with --json, each image has its own, with their kinds.
    #[arg(long, conflicts_with_all = ["from", "format", "probes", "predict"], help_heading = "Output")]
    pub files: bool,

    /// Trace the processes that the program starts as well, and report each by itself
    #[arg(long, help_heading = "What is watched")]
    pub follow: bool,

    /// When to stop tracing
    ///
    /// With `entry`, tracing ends at the entry point of the first program: the report is written
    /// there, and the program continues untraced.
    #[arg(long, value_name = "WHEN", default_value = "exit", help_heading = "What is watched")]
    pub until: Until,

    /// Write one JSON object, schema becalm/trace/1
    ///
    /// It goes to stdout when the program has ended, on its own line after the program's output; -o
    /// writes it to a file instead.
    #[arg(long, help_heading = "Output")]
    pub json: bool,

    /// Write the start in time, for viewers such as Perfetto and speedscope
    ///
    /// `chrome` is Trace Event JSON: processes, the loader's and the program's phase, the search of each
    /// library and each lookup, in the program's own time, the tracer's subtracted. With
    /// --relocations also relocation and constructors. It goes where --json goes.
    #[arg(long, value_name = "FORMAT", conflicts_with_all = ["json", "from"], help_heading = "Output")]
    pub format: Option<Format>,

    /// Show the loader's probes, one a line, in the order in which they were made
    ///
    /// Each line has the call, the outcome, the search source, the requester and the path, as in
    /// `becalm check --probes`. The JSON always has them.
    #[arg(long, conflicts_with_all = ["json", "format"], help_heading = "Output")]
    pub probes: bool,

    /// Show the prediction beside the observation, with the differences
    #[arg(long, conflicts_with_all = ["json", "format", "probes"], help_heading = "Output")]
    pub predict: bool,

    /// Write the report to FILE, not to stderr (the JSON: not to stdout)
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub output: Option<PathBuf>,

    /// Write the lines of --probes to FILE as well
    ///
    /// The file is created before the program is started.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub log: Option<PathBuf>,

    /// Strategies that loaders read.
    #[command(flatten)]
    pub reads: ReadsArg,

    /// The store prefixes.
    #[command(flatten)]
    pub store: StorePrefixes,
}

impl TraceArgs {
    /// Returns the library's options for the traced run.
    pub(crate) fn options(&self) -> Options {
        Options {
            all_syscalls: self.syscalls,
            follow: self.follow,
            until_entry: self.until == Until::Entry,
            until_idle: false,
            relocations: self.relocations,
            record: self.record,
            files: self.files,
            timeline: self.format.is_some(),
            cold: false,
            reads: self.reads.strategies(),
            store: self.store.clone(),
        }
    }
}
