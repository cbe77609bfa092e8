//! What becalm costs, measured beside a control in the same run.

mod trace;

use std::path::PathBuf;

use anyhow::Result;
use clap::Subcommand;

/// A benchmark.
#[derive(Subcommand)]
pub(crate) enum Bench {
    /// Programs of a store untraced, under becalm trace, and under strace
    Trace {
        /// The store
        #[arg(long, default_value = "target/lab/store")]
        store: PathBuf,
        /// The becalm to measure
        #[arg(long, default_value = "target/release/becalm")]
        becalm: PathBuf,
        /// Rounds; in each, every way is taken once
        #[arg(long, default_value_t = 20)]
        rounds: usize,
        /// Where the raw times go, one JSON object
        #[arg(long)]
        raw: Option<PathBuf>,
    },
}

/// Runs one.
pub(crate) fn run(bench: &Bench) -> Result<()> {
    match bench {
        Bench::Trace { store, becalm, rounds, raw } => {
            trace::run(store, becalm, *rounds, raw.as_deref())
        }
    }
}
