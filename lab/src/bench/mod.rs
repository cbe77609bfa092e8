//! `lab bench`: what becalm costs, beside other tools that answer part of its question.
//!
//! [`check`] says what is measured and writes it down; [`list`] chooses the files,
//! [`tools`] holds the command lines, [`run`] measures one of them once, [`closures`]
//! counts what each tool resolved, [`summary`] makes ratios of the rounds, [`machine`]
//! says where all this was.

mod check;
mod closures;
mod list;
mod machine;
mod run;
mod summary;
mod tools;

pub(crate) use check::CheckBench;

use anyhow::Result;
use clap::Subcommand;

/// What can be measured.
#[derive(Subcommand)]
pub(crate) enum Bench {
    /// `becalm check` beside libtree and lddtree, on one list of files
    Check(CheckBench),
}

/// Measures.
///
/// # Errors
/// A tool is missing or cannot be run, or the raw data cannot be written.
pub(crate) fn run(bench: &Bench) -> Result<()> {
    match bench {
        Bench::Check(asked) => check::run(asked),
    }
}
