//! Compares `becalm trace` with `strace`, with `becalm check`, and with untraced starts.
//!
//! Each program is started as the user nobody in an empty folder, without input and with a time
//! limit ([`run`]): untraced twice, under `strace`, and under `becalm trace`. [`compare`] compares.
//! Programs that could harm a machine merely by being started are excluded ([`choose`]).

pub(crate) mod choose;
mod compare;
pub mod run;
pub(crate) mod tried;

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::Result;

use crate::command::given_or_beside;
use crate::differential::verdicts;
use crate::tally::Tally;
use compare::{NO_END, NOT_RUN, OUTPUT, PREDICTION, STRACE, VARIES};
use run::reachable;

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
}

/// Compares. Returns false if anything differs.
///
/// # Errors
/// Returns an error if a store cannot be read or the scratch folder cannot be created.
pub fn run(options: &Options) -> Result<bool> {
    let becalm = given_or_beside(options.becalm.as_deref(), "becalm")?;
    let (_folder, becalm) = reachable(&becalm)?;
    let trials = choose::trials(&options.store, options.sample, options.seed)?;
    let one = |trial: &choose::Trial| compare::compare(&becalm, trial);
    let mut tally = Tally::default();
    let mut clean = true;
    for (trial, verdict) in trials.iter().zip(verdicts(&trials, one)) {
        let counts = tally.group(&trial.group, String::new());
        counts.add("starts", 1);
        counts.add("probes", verdict.probes);
        counts.add("misses", verdict.misses);
        // Each kind once a start, however many images it has.
        let kinds: BTreeSet<&str> = verdict.wrong.iter().map(|(kind, _)| *kind).collect();
        kinds.iter().for_each(|kind| counts.add(kind, 1));
        clean &= kinds.is_subset(&BTreeSet::from([VARIES, NO_END]));
        for (kind, what) in verdict.wrong {
            tally.differs(trial.line(), format!("{kind}: {what}"));
        }
    }
    let columns =
        ["starts", "probes", "misses", STRACE, PREDICTION, OUTPUT, VARIES, NO_END, NOT_RUN];
    print!("{}", tally.text((10, 12), &columns));
    Ok(clean)
}
