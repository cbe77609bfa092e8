//! The lab: creates real storms and measures them.
//!
//! `import` creates a store from this machine's programs, `bench` measures becalm itself, `build-loader` builds a glibc with the loader patches,
//! `compare` tries every strategy on a copy of a program, `field` measures published figures again,
//! `scale` indexes stores of any size, `survey` checks very many files, `simulate` computes starts of
//! large jobs, `slowfs` mounts a file system with slow lookups, and `slowdisk` runs a command on a disk
//! with slow reads.

mod becalm;
mod bench;
mod build_loader;
mod child;
mod compare;
mod dpkg;
mod elf;
mod field;
mod import;
mod loader;
mod mount_namespace;
mod patchelf;
mod programs;
mod scale;
mod simulate;
mod slowdisk;
mod slowfs;
mod stored;
mod survey;
mod words;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use becalm_lib::words::words_of_chain;
use clap::{Parser, Subcommand};

/// Creates real storms from this machine's programs.
#[derive(Parser)]
#[command(name = "lab")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make a store, one directory per Debian package, from programs of this machine
    Import {
        /// Path of the store
        #[arg(long, default_value = "target/lab/store")]
        store: PathBuf,
        /// Write DT_RPATH instead of DT_RUNPATH and leave the C library and its loader on the
        /// system, as Spack does
        #[arg(long)]
        rpath: bool,
        /// Names or paths. By default all eight: imagemagick, emacs-nox, inkscape, guile-3.0, nix-bin,
        /// git, python3 and bash
        program: Vec<String>,
    },
    /// Measure becalm in comparison with other tools
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Build a glibc whose loader reads notes and package caches
    ///
    /// Fetches Debian's glibc-source of the release through apt, with its own lists and cache and
    /// the mirror of this machine's apt configuration; applies becalm's patches; builds; installs
    /// into the prefix only. The package and the built files stay in the cache folder
    /// ($XDG_CACHE_HOME/becalm/loader), so that a second run only copies.
    BuildLoader(build_loader::BuildArgs),
    /// Try every strategy on a copy of a program's closure and compare them
    ///
    /// The lab copies the packages of the program's closure and applies each strategy to its own
    /// copy. A private mount namespace puts that copy in the place of the original, so that only
    /// the programs started in it see it. The lab records the loaded files and the misses, times the
    /// starts against each other, and tests each property on programs built for it. The store is
    /// not changed.
    #[command(override_usage = "lab compare [OPTIONS] PROGRAM [-- ARGS...]")]
    Compare(Box<compare::args::CompareArgs>),
    /// Measure published figures again
    #[command(subcommand)]
    Field(field::Field),
    /// Index stores of growing size, up to a million objects
    Scale(scale::Scale),
    /// Measure a survey of very many files by becalm check --ndjson
    Survey(survey::Survey),
    /// Compute when the last rank of a job of up to 10,000 nodes is through its imports
    Simulate(simulate::Simulate),
    /// Mount a directory on which every lookup of a name is slow
    Slowfs(slowfs::SlowFs),
    /// Run a command with directories on a disk each of whose reads is slow
    Slowdisk(slowdisk::SlowDisk),
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("lab: {}", words_of_chain(error.as_ref()));
            ExitCode::from(2)
        }
    }
}

fn run(command: Command) -> Result<ExitCode> {
    let done = match command {
        Command::Slowfs(args) => return slowfs::run(&args),
        Command::Slowdisk(args) => return slowdisk::run(&args),
        Command::Compare(args) => return compare::run::run(&args),
        Command::Import { store, rpath, program } => import::run(&store, &program, rpath),
        Command::Bench(bench) => bench::run(&bench),
        Command::BuildLoader(args) => build_loader::run(&args),
        Command::Field(field) => field::run(&field),
        Command::Scale(args) => scale::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Survey(args) => survey::run(&args),
    };
    done.map(|()| ExitCode::SUCCESS)
}
