//! The command line: the one definition behind parsing, help, manual and completions.

use std::ffi::OsString;
use std::{io, iter, process};

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::exit_code::ExitStatus;
use crate::overview;
use crate::terminal::style::When;
use crate::terminal::{self, manual};

/// Ends the dynamic loader's stat storm
///
/// If each library of a program is in a directory of its own, the dynamic loader tries every
/// directory of every run path for every library, before main. becalm predicts this search without
/// running the program, and removes it.
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
    /// For a program, it prints the libraries, the searched directories, the predicted failing
    /// opens and stats, how many of these are in hwcaps subdirectories, the directories and needed
    /// strings that cost most, missing libraries, and the misses that would remain with
    /// `becalm run` and `becalm fix`. Several paths or a folder give a table, the worst first. A
    /// folder is walked for every ELF program and shared library; a library is checked as
    /// `ld.so LIBRARY` would load it. Mach-O files are recognised and their load commands counted.
    ///
    /// Programs of any architecture can be checked. becalm asks the loader that the program names
    /// for its compiled-in settings (`ld.so --list-diagnostics`) if that loader can run here;
    /// otherwise it reads them from the loader's file. --libc and --cpu override them. No checked
    /// program is started.
    Check(Box<crate::check::args::CheckArgs>),
    /// Compare the strategies for a program: its misses and its time with each
    ///
    /// becalm plans each strategy of `becalm fix` for the program and predicts the program's start
    /// with that plan, and with an index for `becalm run`. Nothing is written or run.
    Advise(Box<crate::advise::args::AdviseArgs>),
    /// Check whether this session uses an index, which one, and whether it works
    ///
    /// Reads LD_AUDIT, GLIBC_TUNABLES, BECALM, the index, the files that it was made from, and the
    /// loader of /bin/sh. Nothing is changed.
    Doctor(crate::doctor::args::DoctorArgs),
    /// Show what is kept of programs on network file systems, or remove it
    ///
    /// `becalm run` records what starts look up on network file systems, and copies the files that
    /// they read to this machine's disk. Each start compares both with the file system.
    Cache(crate::cache::args::CacheArgs),
    /// Write what starts on network file systems need into one file, for other machines
    ///
    /// A start that was learned looks up at once what it needs, and reads files from copies on this
    /// machine's disk. A pack takes both to another machine, whose first start is then one that was learned.
    #[command(override_usage = "becalm pack [OPTIONS] -o FILE [PROGRAM]...")]
    Pack(crate::pack::args::PackArgs),
    /// Add a pack to what this machine keeps of programs on network file systems
    ///
    /// Each start compares every file with the file system, as it does with copies of its own.
    Unpack(crate::pack::args::UnpackArgs),
    /// Run a program and record the file lookups of its loader
    ///
    /// The program runs as it would without becalm: same streams, terminal, process group and exit
    /// code. The report separates the loader's work before the entry point from the program's own:
    /// the time of each, the failed lookups and their time, and the objects that requested them. If
    /// a wrapper executes another program, each program is an image of its own; the report is about
    /// the last one.
    ///
    /// The report is written to stderr when the program has ended, so the program's stdout is
    /// unchanged.
    #[command(override_usage = "becalm trace [OPTIONS] -- CMD [ARGS]...")]
    Trace(Box<crate::trace::args::TraceArgs>),
    /// Make an HTML page about a program's start: its misses, and what removes them
    ///
    /// The page is a single HTML file that loads nothing else. It shows the search as a picture,
    /// the closure as a tree and the start as a timeline; with --after, another program beside it;
    /// with --compare, a table of the strategies. becalm runs the program once under the tracer,
    /// with /dev/null as its standard streams; with --no-run it does not run it.
    #[command(override_usage = "becalm report [OPTIONS] PROGRAM -o FILE.html [-- ARGS...]")]
    Report(Box<crate::report::args::ReportArgs>),
    /// Run a program with an index, so that its loader finds libraries without a search
    ///
    /// becalm adds the index to LD_AUDIT, sets GLIBC_TUNABLES if the program's libraries need more
    /// static TLS than is available under an audit module, keeps the other contents of both
    /// variables, and executes the program. Programs that it starts use the index as well.
    #[command(override_usage = "becalm run [OPTIONS] -- CMD [ARGS]...")]
    Run(crate::run::args::RunArgs),
    /// Make programs start by an index whenever they are called, those that gain
    ///
    /// becalm makes an index of the programs and a folder with a link for each, which it puts at the
    /// front of PATH. The links lead to a small starter, which adds the index to the environment of the
    /// program and executes it. Programs that it starts get the environment as it was.
    On(crate::on::args::OnArgs),
    /// Undo `becalm on`
    Off(crate::on::args::OffArgs),
    /// Write an index of stores: one file that says where libraries are
    ///
    /// becalm walks the stores and resolves each object's needed strings as the loader would. The
    /// answers are written into one file, an audit module (man 7 rtld-audit) for an unmodified
    /// glibc from 2.31 on. `becalm run` and `becalm env` make programs use it. Its answers are
    /// those of the loader's search; if an answer cannot be known in advance, the loader searches
    /// as always.
    Index(crate::index::args::IndexArgs),
    /// Print the lines that set up an index for a whole session, or remove it
    Env(crate::env::args::EnvArgs),
    /// Record in ELF files where their libraries are, so that the loader need not search
    ///
    /// The strategy decides how the answers reach the loader: notes and loader caches need a loader
    /// that reads them; absolute paths and link farms work with any. becalm plans all changes
    /// first, and skips those that would change which libraries a program loads, with the reason.
    /// Each file has either the old or the new content at any time, and `becalm undo` restores the
    /// old bytes. A second run changes nothing.
    Fix(Box<crate::fix::args::FixArgs>),
    /// Undo `becalm fix`: restore each file byte for byte
    ///
    /// A file that another tool has changed since stays as it is: it is printed on stderr with the
    /// reason, and the exit status is 2.
    Undo(crate::undo::args::UndoArgs),
    /// Check whether the answers that `becalm fix` wrote still match the plain search
    ///
    /// Each answer of a note, an absolute needed string, a farm or a package's loader cache, made
    /// by becalm or by another tool, is compared with the result of the search.
    Verify(Box<crate::verify::args::VerifyArgs>),
    /// Measure the startup time of a program, compared with others
    ///
    /// Each round starts every variant once, in a new random order, so that other load on the
    /// machine affects all variants alike. Ratios are taken within a round and printed with an
    /// interval; the first variant takes part twice, as a control. The programs run with /dev/null
    /// as their standard streams. Without another variant, the program is compared with itself
    /// started by an index that is made for the measurement.
    #[command(override_usage = "becalm bench [OPTIONS] PROGRAM [-- ARGS...]")]
    Bench(Box<crate::bench::args::BenchArgs>),
    /// Demonstrate becalm on a program of this machine, in a scratch store
    ///
    /// becalm copies the program and its libraries into a scratch store, one library to a
    /// directory, predicts the loader's search, observes it, and removes it with an index. Nothing
    /// else on the machine is changed, and the scratch store is removed at the end.
    #[command(override_usage = "becalm demo [OPTIONS] [PROGRAM] [-- ARGS...]")]
    Demo(crate::demo::args::DemoArgs),
    /// Print and edit the dynamic section of ELF files, with the flags of patchelf
    ///
    /// Run path, needed strings, soname, interpreter, resolution note and single flags. `becalm undo`
    /// restores the bytes before the first edit.
    Elf(Box<crate::elf::args::ElfArgs>),
    /// Build loaders that read notes and package caches, and test what a loader reads
    #[command(subcommand)]
    Loader(crate::loader::args::LoaderArgs),
    /// Write the manual pages, or the completions of a shell
    #[command(hide = true, subcommand)]
    Generate(crate::generate::args::GenerateArgs),
}

/// Returns the definition of the command line, with the manual sections that no flag explains.
pub(crate) fn definition() -> clap::Command {
    let with_manual = |command: clap::Command| {
        let sections = manual::as_help(manual_of(command.get_name()));
        command.after_long_help(sections)
    };
    let all = with_manual(Cli::command()).mut_subcommands(with_manual);
    let commands = grouped(&all);
    all.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{commands}Options:\n{{options}}{{after-help}}"
    ))
}

/// The commands by what they are for, in the order of the help.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Daily", &["run", "on", "off", "index", "env", "cache", "pack", "unpack"]),
    ("Look", &["check", "advise", "doctor", "trace", "report", "bench", "demo"]),
    ("Change files", &["fix", "undo", "verify", "elf"]),
    ("Build", &["loader", "help"]),
];

/// Returns the list of commands for the help.
fn grouped(all: &clap::Command) -> String {
    let about = |name: &str| match all.find_subcommand(name).and_then(clap::Command::get_about) {
        Some(about) => about.to_string(),
        None => "Print this message or the help of a command".to_owned(),
    };
    let mut text = String::new();
    for (title, names) in GROUPS {
        text.push_str(&format!("{title}:\n"));
        for name in names {
            text.push_str(&format!("  {name:<7}  {}\n", about(name)));
        }
        text.push('\n');
    }
    text
}

/// The arguments of `becalm run`, without the definitions of the other commands.
#[derive(Debug, Parser)]
#[command(disable_help_flag = true)]
struct RunOnly {
    #[command(flatten)]
    args: crate::run::args::RunArgs,
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

/// Parses the flags of this process. A wrong flag, `--help` and `--version` end the process.
pub(crate) fn parse() -> Cli {
    // The program's start waits for `becalm run`, and the definitions of all commands take longer
    // than the rest of its work.
    if let Some(run) = RunOnly::parse(std::env::args_os()) {
        return run;
    }
    // Only the help needs the manual's sections; parsing is faster without them.
    let matches = Cli::command().try_get_matches();
    let matches = matches.unwrap_or_else(|error| {
        let arguments: Vec<OsString> = std::env::args_os().collect();
        let hint = match error.kind() {
            ErrorKind::InvalidSubcommand => overview::hint(&arguments),
            ErrorKind::MissingRequiredArgument => overview::ways(&arguments),
            _ => None,
        };
        if let Some(hint) = hint {
            Cli::command().error(error.kind(), hint).exit();
        }
        definition().try_get_matches().unwrap_or_else(|error| leave(&error))
    });
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// Prints the help or the version, or a wrong flag, and ends the process.
fn leave(error: &clap::Error) -> ! {
    let lost = error.print().err().filter(|_| !error.use_stderr());
    let lost = lost.filter(|lost| lost.kind() != io::ErrorKind::BrokenPipe);
    let Some(lost) = lost else { process::exit(error.exit_code()) };
    terminal::complain(&terminal::of_stdout(lost).into());
    process::exit(ExitStatus::Failure.code().into());
}

const FIRST: &str = "First steps
becalm check /usr/bin/git
    What its start costs and what would help; nothing is run.
becalm report git -o git.html
    The same as a page with a picture.
becalm trace -- git --version
    What its loader does in a real start.
becalm run -- git --version
    The same start with an index: no file is changed.
becalm check /opt/store/*/bin
    All programs of a store, those that miss most first.";

/// Last sections of the help and the man page of becalm itself.
const COMMON: &[&str] = &[FIRST, manual::EXIT_STATUS, manual::ENVIRONMENT];

/// Returns the last sections of the help and the man page of a command, by its name.
pub(crate) fn manual_of(command: &str) -> &'static [&'static str] {
    match command {
        "advise" => crate::advise::manual::ADVISE,
        "bench" => crate::bench::manual::BENCH,
        "cache" => crate::cache::manual::CACHE,
        "pack" => crate::pack::manual::PACK,
        "unpack" => crate::pack::manual::UNPACK,
        "check" => crate::check::manual::CHECK,
        "demo" => crate::demo::manual::DEMO,
        "doctor" => crate::doctor::manual::DOCTOR,
        "elf" => crate::elf::manual::ELF,
        "env" => crate::env::manual::ENV,
        "fix" => crate::fix::manual::FIX,
        "index" => crate::index::manual::INDEX,
        "loader" => crate::loader::manual::LOADER,
        "off" | "on" => crate::on::manual::ON,
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
    fn each_command_is_in_one_group_of_the_help() {
        let all = definition();
        let visible = all.get_subcommands().filter(|command| !command.is_hide_set());
        let mut names: Vec<&str> = visible.map(clap::Command::get_name).chain(["help"]).collect();
        let mut listed: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        names.sort_unstable();
        listed.sort_unstable();
        assert_eq!(names, listed);
    }

    #[test]
    fn an_unknown_c_library_is_refused_with_the_known_ones() {
        let error = definition()
            .try_get_matches_from(["becalm", "check", "--libc", "dietlibc", "x"])
            .expect_err("no such libc");
        let known = "glibc-2.31 to glibc-2.44, or musl";
        assert!(error.to_string().contains(known), "{error}");
        let newest = ["becalm", "check", "--libc", "glibc-2.44", "x"];
        assert!(definition().try_get_matches_from(newest).is_ok());
        let mut definition = definition();
        let check = definition.find_subcommand_mut("check").expect("a command");
        assert!(check.render_help().to_string().contains(known), "the help names other releases");
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
            for (term, meaning) in manual::read(section).1 {
                assert!(!term.starts_with(['.', '\'']), "{term}");
                assert!(!meaning.starts_with(['.', '\'']), "{meaning}");
                assert!(!meaning.contains('\n'), "{meaning}");
            }
        }
    }

    #[test]
    fn the_manual_of_fix_has_every_strategy() {
        let sections = manual_of("fix");
        let entries: Vec<_> = sections.iter().flat_map(|section| manual::read(section).1).collect();
        for strategy in becalm_lib::fix::options::of_files() {
            let name = strategy.to_string();
            assert!(entries.iter().any(|(term, _)| *term == name), "{name}");
        }
    }

    #[test]
    fn help_stays_within_its_width() {
        let widest =
            manual::as_help(manual_of("check")).lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(manual::HELP_WIDTH), "{widest:?}");
    }
}
