//! The command line: the one definition behind parsing, help, manual and completions.

use std::ffi::OsString;
use std::iter;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::advise::args::AdviseArgs;
use crate::bench::args::BenchArgs;
use crate::check::args::CheckArgs;
use crate::compare::args::CompareArgs;
use crate::demo::args::DemoArgs;
use crate::doctor::args::DoctorArgs;
use crate::elf::args::ElfArgs;
use crate::env::args::EnvArgs;
use crate::fix::args::FixArgs;
use crate::generate::args::GenerateArgs;
use crate::index::args::IndexArgs;
use crate::loader::args::LoaderArgs;
use crate::report::args::ReportArgs;
use crate::run::args::RunArgs;
use crate::terminal::manual;
use crate::terminal::style::When;
use crate::trace::args::TraceArgs;
use crate::undo::args::UndoArgs;
use crate::verify::args::VerifyArgs;

/// Ends the dynamic loader's stat storm
///
/// A program whose libraries live one to a directory makes the dynamic loader try
/// every directory of every run path for every library, before main. becalm predicts
/// that storm without running the program.
#[derive(Debug, Parser)]
#[command(name = "becalm", version, max_term_width = 100)]
pub(crate) struct Cli {
    /// The command.
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
    /// Say which strategy helps a program, with its misses before and after each
    ///
    /// Each strategy of `becalm fix` is planned for the program, and its start predicted with the
    /// plan; so is an index for `becalm run`. Nothing is written or run.
    Advise(Box<AdviseArgs>),
    /// Say whether this session is calmed, by which index, and what is wrong with it
    ///
    /// Looks at LD_AUDIT, GLIBC_TUNABLES and BECALM, at the index and at the files that it was
    /// made from, and at the loader of /bin/sh. Nothing is changed.
    Doctor(DoctorArgs),
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
    /// strategies beside each other with --compare. The program is run once, watched, with
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
    /// The strategy says how the answers reach the loader: notes and loader caches are for a
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
    /// The packages of the program's closure are copied; each strategy is put on a copy of
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
    /// Print and edit the dynamic section of ELF files, with the flags of patchelf
    ///
    /// Run path, needed strings, soname, interpreter, resolution note and single flags. `becalm undo`
    /// restores the bytes before the first edit.
    Elf(Box<ElfArgs>),
    /// Build and try loaders that read notes and package caches
    #[command(subcommand)]
    Loader(LoaderArgs),
    /// Write the manual pages or the completions of a shell
    #[command(hide = true, subcommand)]
    Generate(GenerateArgs),
}

/// The definition, with the sections of the manual that no flag explains.
#[must_use]
pub(crate) fn definition() -> clap::Command {
    let with_manual = |command: clap::Command| {
        let sections = manual::as_help(manual_of(command.get_name()));
        command.after_long_help(sections)
    };
    with_manual(Cli::command()).mut_subcommands(with_manual)
}

/// The arguments of `becalm run`, without the definitions of the other commands.
#[derive(Debug, Parser)]
#[command(disable_help_flag = true)]
struct RunOnly {
    #[command(flatten)]
    args: RunArgs,
    #[arg(long, default_value = "auto")]
    color: When,
}

impl RunOnly {
    /// Parses the arguments if they are those of a correct `becalm run`.
    fn parse(arguments: impl Iterator<Item = OsString>) -> Option<Cli> {
        let mut arguments = arguments.skip(1).peekable();
        arguments.next_if(|command| command == "run")?;
        let name = OsString::from("run");
        let Self { args, color } = Self::try_parse_from(iter::once(name).chain(arguments)).ok()?;
        Some(Cli { command: Command::Run(args), color })
    }
}

/// The flags of this process. A wrong one, `--help` and `--version` end it.
#[must_use]
pub(crate) fn parse() -> Cli {
    // A program's start waits for `becalm run`, and the definitions of all commands take longer
    // than the rest of its work.
    if let Some(run) = RunOnly::parse(std::env::args_os()) {
        return run;
    }
    // The manual's sections are for the help alone: without them each start is quicker.
    let matches = Cli::command().try_get_matches();
    let matches = matches.unwrap_or_else(|_| definition().get_matches());
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

const FIRST: manual::Section = manual::Section {
    title: "First steps",
    entries: &[
        ("becalm check /usr/bin/git", "What its start costs and what would help; nothing is run."),
        ("becalm report git -o git.html", "The same as a page with a picture."),
        ("becalm trace -- git --version", "What its loader does in a real start."),
        ("becalm run -- git --version", "The same start with an index: no file is changed."),
        ("becalm check /opt/store/*/bin", "All programs of a store, those that miss most first."),
    ],
};

/// Last sections of the help and the man page of becalm itself.
const COMMON: &[&manual::Section] = &[&FIRST, &manual::EXIT_STATUS, &manual::ENVIRONMENT];

/// Returns the last sections of the help and the man page of a command, by its name.
#[must_use]
pub(crate) fn manual_of(command: &str) -> &'static [&'static manual::Section] {
    match command {
        "advise" => crate::advise::manual::ADVISE,
        "bench" => crate::bench::manual::BENCH,
        "check" => crate::check::manual::CHECK,
        "compare" => crate::compare::manual::COMPARE,
        "demo" => crate::demo::manual::DEMO,
        "doctor" => crate::doctor::manual::DOCTOR,
        "elf" => crate::elf::manual::ELF,
        "env" => crate::env::manual::ENV,
        "fix" => crate::fix::manual::FIX,
        "index" => crate::index::manual::INDEX,
        "loader" => crate::loader::manual::LOADER,
        "report" => crate::report::manual::REPORT,
        "run" => crate::run::manual::RUN,
        "trace" => crate::trace::manual::TRACE,
        "undo" => crate::undo::manual::UNDO,
        "verify" => crate::verify::manual::VERIFY,
        _ => COMMON,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_run(line: &str) -> Option<Cli> {
        RunOnly::parse(line.split(' ').map(OsString::from))
    }

    #[test]
    fn a_line_of_run_is_parsed_alone_as_it_is_with_all_commands() {
        for line in [
            "becalm run -- git --version",
            "becalm run git --help",
            "becalm run --index x --color never --no-bind -q -- a b -- c",
            "becalm run --strict --store /a:/b -- a",
            "becalm run",
        ] {
            let all = definition().get_matches_from(line.split(' '));
            let all = Cli::from_arg_matches(&all).expect("accepted");
            let alone = parse_run(line).expect("accepted");
            assert_eq!(format!("{all:?}"), format!("{alone:?}"), "{line}");
        }
    }

    #[test]
    fn help_mistakes_and_other_commands_are_left_to_the_whole_definition() {
        for line in [
            "becalm run --help",
            "becalm run -h",
            "becalm run --version",
            "becalm run --strict --quiet -- a",
            "becalm run --no-such -- a",
            "becalm --color never run -- a",
            "becalm check run",
            "becalm",
        ] {
            assert!(parse_run(line).is_none(), "{line}");
        }
    }

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

    #[test]
    fn no_entry_begins_like_a_roff_request() {
        let definition = definition();
        let commands = definition.get_subcommands().map(clap::Command::get_name);
        for section in commands.chain(["becalm"]).flat_map(manual_of) {
            for (term, meaning) in section.entries {
                assert!(!term.starts_with(['.', '\'']), "{term}");
                assert!(!meaning.starts_with(['.', '\'']), "{meaning}");
                assert!(!meaning.contains('\n'), "{meaning}");
            }
        }
    }

    #[test]
    fn help_stays_within_its_width() {
        let widest =
            manual::as_help(manual_of("check")).lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(manual::HELP_WIDTH), "{widest:?}");
    }
}
