//! The command line: the one definition behind parsing, help, manual and completions.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;

use crate::manual;

mod assume;
mod bench;
mod compare;
mod fix;
mod index;
mod loader;
mod report;
mod trace;

pub(crate) use self::assume::{AssumeArgs, Readable, ReadsArg, Secure, StoreArg};
pub(crate) use self::bench::{BenchArgs, Export, Form};
pub(crate) use self::compare::{CompareArgs, Compared, DemoArgs};
pub(crate) use self::fix::{
    Compat, FixArgs, HardlinksArg, Resolve, Strategy, UndoArgs, VerifyArgs, WritingArgs,
};
pub(crate) use self::index::{Dialect, EnvArgs, IndexArgs, RunArgs};
pub(crate) use self::loader::{BuildArgs, LoaderArgs, TryArgs};
pub(crate) use self::report::ReportArgs;
pub(crate) use self::trace::{TraceArgs, Until};

/// Ends the dynamic loader's stat storm
///
/// A program whose libraries live one to a directory makes the dynamic loader try
/// every directory of every run path for every library, before main. becalm predicts
/// that storm without running the program.
#[derive(Debug, Parser)]
#[command(name = "becalm", version, max_term_width = 100)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,

    /// When to colour the output
    ///
    /// `auto` colours on a terminal, unless NO_COLOR is set.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: When,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Predict what the loader would try and load at program start; run nothing
    ///
    /// For a program: its libraries, the directories searched for them, the predicted
    /// failing opens and stats, how many of them are for hwcaps subdirectories, the
    /// directories and needed strings that cost most, what would not be found, and what
    /// `becalm run` and `becalm fix` would leave of its misses. Several paths or a folder give a table, the worst first.
    /// A folder is walked for every ELF program and shared library; a library is checked
    /// as `ld.so LIBRARY` would load it. Mach-O files are recognised and their load
    /// commands counted.
    ///
    /// Programs of any architecture can be checked. What a loader has compiled in is asked
    /// of the loader that the program names (`ld.so --list-diagnostics`) where that can run
    /// here, read from the loader's file where it cannot, and taken from --libc and --cpu
    /// where given. No program that is checked is started.
    Check(Box<CheckArgs>),
    /// Run a program and watch what its loader tries
    ///
    /// The program runs as it would without becalm: same streams, terminal, process group
    /// and exit code. What its loader does before the entry point is told apart from what
    /// the program does after it: how long each took, how many of the lookups failed and
    /// what those cost, and who asked for them. Each program that a wrapper turns into is
    /// an image of its own; the report is about the last one.
    ///
    /// The report goes to stderr when the program has ended, so that its stdout stays what
    /// it is.
    #[command(override_usage = "becalm trace [OPTIONS] -- CMD [ARGS]...")]
    Trace(Box<TraceArgs>),
    /// Make one page about a program's start: what is missed, and what would help
    ///
    /// The page is a single file of HTML that loads nothing: the storm as a picture, the
    /// closure as a tree, the start in time, a calmed program beside it with --after, the
    /// carriers beside each other with --compare. The program is run once, watched, with
    /// /dev/null as its standard streams; with --no-run it is not.
    #[command(override_usage = "becalm report [OPTIONS] PROGRAM -o FILE.html [-- ARGS...]")]
    Report(Box<ReportArgs>),
    /// Run a program with an index, by which its loader finds libraries without a search
    ///
    /// Sets LD_AUDIT, and GLIBC_TUNABLES where the program's libraries need more static TLS
    /// than there is under an audit module, beside what the variables already hold; then
    /// becomes the program. What the program starts is calmed as well.
    #[command(override_usage = "becalm run [OPTIONS] -- CMD [ARGS]...")]
    Run(RunArgs),
    /// Write an index of stores: one file beside them that says where libraries are
    ///
    /// The stores are walked, and each object's needed strings are resolved as the loader would
    /// resolve them. The answers go into one file, an audit module (man 7 rtld-audit) for an
    /// unmodified glibc from 2.31 on. `becalm run` and `becalm env` have programs use it. What
    /// the search would give is what they get: where that cannot be said beforehand, the loader
    /// searches as always.
    Index(IndexArgs),
    /// Print the lines that give a whole session an index, or take it away
    Env(EnvArgs),
    /// Have objects say where their libraries are, so that the loader need not search
    ///
    /// The carrier says how the answers reach the loader: notes and loader caches are for a
    /// loader that reads them, absolute paths and link farms for any. What is written is
    /// planned first, and what would change what a program loads is left out, with the reason.
    /// Each file is the old one or the new one whatever happens, and `becalm undo` gives back
    /// the old bytes. A second run changes nothing.
    Fix(Box<FixArgs>),
    /// Take back what `becalm fix` did, byte for byte
    ///
    /// Files that something else has changed since are left alone, with the reason.
    Undo(UndoArgs),
    /// Tell whether what `becalm fix` wrote is still what the plain search gives
    ///
    /// For each answer of a note, an absolute needed string, a farm or a package's loader
    /// cache, of becalm's or of another tool's: where does it lead, and where would the search?
    Verify(Box<VerifyArgs>),
    /// Try every strategy on a copy of a program's closure, side by side
    ///
    /// The packages of the program's closure are copied; each carrier is put on a copy of
    /// its own, which lies in the place of the original for the programs that are started
    /// with it and for nobody else. What is loaded and what is tried in vain is watched, the
    /// starts are timed against each other, and each property is tried on programs built
    /// for it. Nothing of the store is changed.
    #[command(override_usage = "becalm compare [OPTIONS] PROGRAM [-- ARGS...]")]
    Compare(Box<CompareArgs>),
    /// Measure how long a program takes to start, beside others
    ///
    /// Every variant is started once a round, in an order drawn anew for each, so that
    /// whatever else the machine does meets all of them. Ratios are taken within a round
    /// and told with an interval; the first variant takes part twice, as a control. The
    /// programs run with /dev/null as their standard streams.
    #[command(override_usage = "becalm bench [OPTIONS] PROGRAM [-- ARGS...]")]
    Bench(Box<BenchArgs>),
    /// Show it all on a program of this machine, in a scratch store
    ///
    /// The program and its libraries are copied into a scratch store, one library to a
    /// directory; what its loader then tries is predicted and counted as it happens; an
    /// index calms it. Nothing of the machine is changed, and nothing remains.
    #[command(override_usage = "becalm demo [OPTIONS] [PROGRAM] [-- ARGS...]")]
    Demo(DemoArgs),
    /// Build and try loaders that read notes and package caches
    #[command(subcommand)]
    Loader(LoaderArgs),
    /// Write the manual pages or the completions of a shell
    #[command(hide = true, subcommand)]
    Generate(GenerateArgs),
}

/// When to do something that only some readers of the output want.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    /// Where the output is a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The flags of `becalm check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Programs, libraries, or folders of them
    #[arg(required = true, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,

    /// Show who needs what and where each answer comes from
    #[arg(long, conflicts_with_all = ["probes", "json"], help_heading = "Output")]
    pub tree: bool,

    /// Show every probe, one a line, in the loader's order
    ///
    /// Each line has the call, the outcome, the search source, the asking object and
    /// the path. With --json, the probes become part of the object.
    #[arg(long, help_heading = "Output")]
    pub probes: bool,

    /// Write one JSON object, schema becalm/check/1
    #[arg(long, help_heading = "Output")]
    pub json: bool,

    /// Exit with 1 where a program has more than N failing opens and stats
    ///
    /// The budget holds for each program by itself; stderr names those over it.
    #[arg(long, value_name = "N", help_heading = "Output")]
    pub max_misses: Option<u64>,

    /// Show the prediction beside what `becalm trace --json` recorded in FILE
    ///
    /// One program is checked; the differences are listed, and the exit code is 1 where
    /// there are any.
    #[arg(
        long,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        conflicts_with_all = ["tree", "probes", "max_misses"],
        help_heading = "Output"
    )]
    pub against: Option<PathBuf>,

    /// What loaders read.
    #[command(flatten)]
    pub reads: ReadsArg,

    /// What is assumed of the machine.
    #[command(flatten)]
    pub assume: AssumeArgs,

    /// Programs to work on at once; without it, as many as there are CPUs
    #[arg(short, long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
}

/// What to generate.
#[derive(Debug, Subcommand)]
pub(crate) enum GenerateArgs {
    /// Write the manual pages
    Man {
        /// Where to
        #[arg(value_hint = ValueHint::DirPath)]
        dir: PathBuf,
    },
    /// Write the completions of a shell to stdout
    Completions {
        /// Which shell
        shell: Shell,
    },
}

/// The definition, with the sections of the manual that no flag explains.
#[must_use]
pub(crate) fn definition() -> clap::Command {
    let with_manual = |command: clap::Command| {
        let sections = manual::as_help(manual::of(command.get_name()));
        command.after_long_help(sections)
    };
    with_manual(Cli::command()).mut_subcommands(with_manual)
}

/// The flags of this process. A wrong one, `--help` and `--version` end it.
#[must_use]
pub(crate) fn parse() -> Cli {
    // The manual's sections are for the help alone: without them each start is quicker.
    let matches = Cli::command().try_get_matches();
    let matches = matches.unwrap_or_else(|_| definition().get_matches());
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        definition().debug_assert();
    }

    #[test]
    fn an_unknown_c_library_is_refused_with_the_known_ones() {
        let error = definition()
            .try_get_matches_from(["becalm", "check", "--libc", "dietlibc", "x"])
            .expect_err("no such libc");
        assert!(error.to_string().contains("glibc-2.31"), "{error}");
    }

    #[test]
    fn an_empty_library_path_is_not_the_same_as_none_given() {
        let matches = definition()
            .try_get_matches_from(["becalm", "check", "--library-path", "", "x"])
            .expect("accepted");
        let flags = Cli::from_arg_matches(&matches).expect("accepted");
        let Command::Check(check) = flags.command else { panic!("check") };
        assert_eq!(check.assume.library_path, Some(OsString::new()));
        assert_eq!(check.assume.preload, None);
    }
}
