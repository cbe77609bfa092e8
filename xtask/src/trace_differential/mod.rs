//! Compares `becalm trace` with `strace`, with `becalm check`, and with untraced starts.
//!
//! Each program is started as the user nobody in an empty folder, without input and with a time
//! limit ([`run`]): untraced twice, under `strace`, and under `becalm trace`. [`compare`] compares.
//! Programs that could harm a machine merely by being started are excluded ([`choose`]).

pub(crate) mod choose;
mod compare;
pub(crate) mod run;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;
use rayon::prelude::*;

use compare::{Verdict, Wrong};
use run::Runner;

/// Options of the comparison.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// The becalm to try; by default the one in this program's directory.
    #[arg(long, value_name = "FILE")]
    becalm: Option<PathBuf>,
    /// Number of programs of /usr/bin.
    #[arg(long, value_name = "N", default_value_t = 220)]
    sample: usize,
    /// Seed of the sample: the same seed selects the same programs.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// A lab store: every program of it.
    #[arg(long, value_name = "DIR")]
    store: Vec<PathBuf>,
    /// Number of concurrent starts.
    #[arg(long, value_name = "N", default_value_t = 2)]
    threads: usize,
    /// Number of differences to print.
    #[arg(long, value_name = "K", default_value_t = 40)]
    show: usize,
}

/// Compares. Returns false if anything differs.
///
/// # Errors
/// Returns an error if a store cannot be read or the scratch folder cannot be created.
pub fn run(options: &Options) -> Result<bool> {
    let runner = Runner::new(options.becalm.as_deref())?;
    let trials = choose::trials(&options.store, options.sample, options.seed)?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.threads).build()?;
    let verdicts: Vec<Verdict> =
        pool.install(|| trials.par_iter().map(|trial| compare::compare(&runner, trial)).collect());
    let mut groups: BTreeMap<&str, Counts> = BTreeMap::new();
    for (trial, verdict) in trials.iter().zip(&verdicts) {
        groups.entry(&trial.group).or_default().add(verdict);
    }
    println!(
        "{:<10}{:>7}{:>9}{:>9}{:>9}{:>10}{:>9}{:>8}{:>8}",
        "", "starts", "probes", "misses", "strace=", "predict=", "output=", "varies", "no end"
    );
    for (group, c) in &groups {
        println!(
            "{group:<10}{:>7}{:>9}{:>9}{:>9}{:>10}{:>9}{:>8}{:>8}",
            c.starts, c.probes, c.misses, c.strace, c.predicted, c.output, c.varies, c.no_end
        );
    }
    let mut shown = 0;
    let mut clean = true;
    for (trial, verdict) in trials.iter().zip(&verdicts) {
        for wrong in &verdict.wrong {
            clean &= wrong.is_excused();
            if shown < options.show {
                println!("\n{} {}\n  {wrong}", trial.program.display(), trial.argument);
            }
            shown += 1;
        }
    }
    if shown > options.show {
        println!("\n… and {} more", shown - options.show);
    }
    Ok(clean)
}

#[derive(Default)]
struct Counts {
    starts: usize,
    probes: usize,
    misses: usize,
    strace: usize,
    predicted: usize,
    output: usize,
    varies: usize,
    no_end: usize,
}

impl Counts {
    fn add(&mut self, verdict: &Verdict) {
        let has = |test: fn(&Wrong) -> bool| verdict.wrong.iter().any(test);
        self.starts += 1;
        self.probes += verdict.probes;
        self.misses += verdict.misses;
        if has(|wrong| matches!(wrong, Wrong::NoEnd(_) | Wrong::NotRun(_))) {
            self.no_end += 1;
            return;
        }
        self.strace += usize::from(!has(|wrong| matches!(wrong, Wrong::Strace(_))));
        self.predicted += usize::from(!has(|wrong| matches!(wrong, Wrong::Prediction(_))));
        let varies = has(|wrong| matches!(wrong, Wrong::Varies(_)));
        self.varies += usize::from(varies);
        self.output += usize::from(!varies && !has(|wrong| matches!(wrong, Wrong::Output(_))));
    }
}
