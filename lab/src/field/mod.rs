//! `lab field`: measures published figures again, with the programs of this lab.
//!
//! [`calls`] counts system calls and failed opens, with and without strategies. [`farms`] counts
//! the misses with a directory of links for one object and for all objects. [`many`] measures a
//! program of 900 libraries on a slow file system. [`library_path`] counts the directories that an
//! old loader derives from a few entries. Copies are mounted at the store's path
//! ([`crate::mount_namespace`]).

mod calls;
mod farms;
mod library_path;
mod many;
mod search_path;

use crate::bench::write_text;
use crate::words::{grouped, naming};
use std::ffi::OsStr;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::child;

/// A set of figures.
#[derive(Subcommand)]
pub(crate) enum Field {
    /// System calls and failed opens of five programs: without a strategy, with absolute names,
    /// with an index, and with loader caches if a loader that reads them is given
    Calls {
        #[command(flatten)]
        common: Common,
        /// Folders with the C library of a loader that reads package caches
        #[arg(long, value_name = "DIR")]
        libraries: Vec<PathBuf>,
    },
    /// Failed opens with directories of links: for the program alone, and for every object
    Farms(Common),
    /// A program of many libraries on a slow file system, without a strategy and with absolute
    /// names
    Many(Common),
    /// Directories that a loader searches for 13 entries of `LD_LIBRARY_PATH`
    LibraryPath {
        #[command(flatten)]
        common: Common,
        /// Loaders to run, in addition to the machine's own
        #[arg(long, value_name = "LD.SO")]
        loader: Vec<PathBuf>,
    },
}

/// Options of all figures.
#[derive(Args)]
pub(crate) struct Common {
    /// The becalm to use
    #[arg(long, default_value = "target/release/becalm")]
    becalm: PathBuf,
    /// The store
    #[arg(long, default_value = "target/lab/store")]
    store: PathBuf,
    /// File for the figures as JSON, in addition to the printed table
    #[arg(long, value_name = "FILE")]
    raw: Option<PathBuf>,
}

/// A published figure and the one measured here.
#[derive(Debug, Serialize)]
struct Row {
    /// The counted quantity.
    what: String,
    /// The published figure; empty if there is none.
    theirs: String,
    /// The figure measured here.
    ours: String,
}

fn row(what: String, theirs: &str, ours: String) -> Row {
    Row { what, theirs: theirs.to_owned(), ours }
}

impl Common {
    /// Returns the real paths of becalm and of the store.
    fn places(&self) -> Result<(PathBuf, PathBuf)> {
        let real = |path: &PathBuf| path.canonicalize().with_context(naming(path));
        Ok((real(&self.becalm)?, real(&self.store)?))
    }
}

/// Measures the figures, prints them as a table, and writes them if the options name a file.
///
/// # Errors
/// Returns an error if a store, a loader, becalm or strace is missing, or if mounting needs root.
pub(crate) fn run(args: &Field) -> Result<()> {
    let (common, rows) = match args {
        Field::Calls { common, libraries } => (common, calls::rows(&common.places()?, libraries)?),
        Field::Farms(common) => (common, farms::rows(&common.places()?)?),
        Field::Many(common) => (common, many::rows(&common.becalm)?),
        Field::LibraryPath { common, loader } => (common, library_path::rows(loader)?),
    };
    println!("| what | theirs | ours |\n| --- | ---: | ---: |");
    for Row { what, theirs, ours } in &rows {
        println!("| {what} | {theirs} | {ours} |");
    }
    write_text(common.raw.as_deref(), &(serde_json::to_string_pretty(&rows)? + "\n"))
}

/// The system calls of a start, counted by strace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Calls {
    all: usize,
    failed: usize,
    /// Failed opens of a name with `.so` in it.
    missed_opens: usize,
    /// Failed other calls on such a name.
    missed_stats: usize,
}

/// Runs a command and its children under strace.
///
/// # Errors
/// Returns an error if strace is missing or the command fails.
fn trace(command: &[impl AsRef<OsStr>], environment: &[(&str, String)]) -> Result<Calls> {
    Ok(count(&child::strace(&["-f", "-q", "-s", "4096"], environment, command)?))
}

fn count(log: &str) -> Calls {
    let mut calls = Calls { all: 0, failed: 0, missed_opens: 0, missed_stats: 0 };
    for line in log.lines() {
        // The process id precedes the call. An interrupted call has a second line when it ends.
        let call = line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
        if !call.starts_with(|c: char| c.is_ascii_lowercase()) || !call.contains(" = ") {
            continue;
        }
        calls.all += 1;
        calls.failed += usize::from(call.contains(" = -1 E"));
        let missed = call.contains(" = -1 ENOENT");
        let is_open = call.starts_with("open");
        calls.missed_opens += usize::from(missed && is_open && call.contains(".so"));
        calls.missed_stats += usize::from(missed && call.contains("stat"));
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failing_calls_are_counted_by_what_they_looked_for() {
        let log = "\
7 execve(\"/s/p/bin/prog\", [\"prog\"], 0x7ff /* 9 vars */) = 0
7 openat(AT_FDCWD, \"/s/a/lib/liba.so\", O_RDONLY|O_CLOEXEC) = -1 ENOENT (No such file or directory)
7 newfstatat(AT_FDCWD, \"/s/a/lib\", 0x7ff, 0) = -1 ENOENT (No such file or directory)
7 openat(AT_FDCWD, \"/etc/motd\", O_RDONLY) = -1 ENOENT (No such file or directory)
7 clone(child_stack=NULL, flags=SIGCHLD <unfinished ...>
8 access(\"/etc/ld.so.preload\", R_OK) = -1 ENOENT (No such file or directory)
7 <... clone resumed>) = 8
8 +++ exited with 0 +++
";
        let calls = count(log);
        assert_eq!(calls, Calls { all: 5, failed: 4, missed_opens: 1, missed_stats: 1 });
    }

    #[test]
    fn long_numbers_are_grouped() {
        assert_eq!([7, 999, 1000, 1_234_567].map(grouped), ["7", "999", "1,000", "1,234,567"]);
    }
}
