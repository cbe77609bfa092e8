//! The lab: makes real storms.
//!
//! `import` makes a store out of this machine's programs, `fixture` makes the
//! seeds of this field, `measure` counts what the real loader does with them, `bench`
//! measures becalm itself, `field` makes the field's own figures again, `slowfs` makes a file
//! system slow.

mod bench;
mod child;
mod dpkg;
mod elf;
mod field;
mod fixture;
mod import;
mod loader;
mod measure;
mod patchelf;
mod programs;
mod slowfs;
mod stored;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Makes real storms out of this machine's programs.
#[derive(Parser)]
#[command(name = "lab")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make a store, one directory a Debian package, out of programs of this machine
    Import {
        /// Where the store is or is to be
        #[arg(long, default_value = "target/lab/store")]
        store: PathBuf,
        /// A further object, such as a module opened at run time
        #[arg(long, value_name = "FILE")]
        with: Vec<PathBuf>,
        /// Write DT_RPATH instead of DT_RUNPATH and leave the C library and its loader on the
        /// system, as Spack does
        #[arg(long)]
        rpath: bool,
        /// Verify what an earlier import wrote as well
        #[arg(long)]
        verify: bool,
        /// Names (see `programs`) or paths; none means all eight
        program: Vec<String>,
    },
    /// List the eight programs and the file behind each
    Programs,
    /// Build one of the seeds of this field and print what to run
    #[command(subcommand)]
    Fixture(fixture::Fixture),
    /// Measure what becalm costs, beside other tools
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Make the figures again that this field is known by
    #[command(subcommand)]
    Field(field::Field),
    /// Mount a directory so that every lookup of a name takes its time
    Slowfs(slowfs::SlowFs),
    /// Count what the real loader does for each program of a store
    Measure {
        /// The store
        #[arg(long, default_value = "target/lab/store")]
        store: PathBuf,
    },
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("lab: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(command: Command) -> Result<ExitCode> {
    let done = match command {
        Command::Slowfs(args) => return slowfs::run(&args),
        Command::Import { store, with, rpath, verify, program } => {
            import::run(&store, &program, &with, rpath, verify)
        }
        Command::Programs => {
            for name in programs::names() {
                match programs::find(name) {
                    Ok(program) => println!("{name}\t{}", program.path.display()),
                    Err(error) => eprintln!("lab: {error:#}"),
                }
            }
            Ok(())
        }
        Command::Bench(bench) => bench::run(&bench),
        Command::Field(field) => field::run(&field),
        Command::Fixture(fixture) => fixture::run(fixture),
        Command::Measure { store } => measure::run(&store),
    };
    done.map(|()| ExitCode::SUCCESS)
}
