//! How long programs take to start: paired, interleaved runs of two or more commands.
//!
//! [`measure`] runs every variant once a round, in an order drawn anew for each round, so
//! that whatever else the machine does meets all of them; [`stats`] makes medians of the
//! times and ratios of the pairs. The first variant always takes part twice: where this
//! control is not 1 within its interval, the run says little.
//!
//! [`run`] takes one time, [`caches`] makes the next start a cold one.

mod caches;
mod error;
mod run;
pub mod stats;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use fastrand::Rng;

pub use self::error::BenchError;
pub use self::run::Taken;
use self::stats::{Ratio, Spread};
use crate::mount_namespace::MountNamespace;
use crate::trace::Command;

/// Rounds that a time budget gives at the least, and any run at the most: pairs of
/// rounds are compared with each other, so that memory grows with their square.
const ROUNDS: std::ops::RangeInclusive<usize> = 10..=2000;

/// One of the commands that are compared.
#[derive(Clone, Debug)]
pub struct Variant {
    /// What the reader is told.
    pub name: String,
    /// What is run: its standard streams are `/dev/null`. A name without a slash is
    /// looked for along `PATH`, once, before anything is timed.
    pub command: Command,
    /// Where it is run; `None` where the caller is.
    pub mount_namespace: Option<MountNamespace>,
}

/// Where the clock stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// At the end of the program: from before its process is made to when it is gone.
    Exit,
    /// At its entry point: the loader's work alone, from the `execve` on. The program
    /// runs under ptrace, stops at two places and is killed at the second.
    Entry,
}

/// How often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounds {
    /// As often as this; 2,000 at the most.
    Exactly(usize),
    /// As often as the last round before the clock counts makes one expect in this
    /// time: at least 10 times, at the most 2,000.
    Within(Duration),
}

/// How to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the clock stops.
    pub until: Until,
    /// How often.
    pub rounds: Rounds,
    /// Rounds before those, not counted; at least one is made, which also shows whether
    /// the commands work.
    pub warmup: usize,
    /// Drop the kernel's caches before each start.
    pub cold: bool,
    /// How long any one start may take; one that takes longer is killed.
    pub timeout: Duration,
    /// Where the order of each round comes from: the same seed, the same orders.
    pub seed: u64,
    /// Whether an exit code other than 0, or a signal, is fine.
    pub accept_failure: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            until: Until::Exit,
            rounds: Rounds::Within(Duration::from_secs(5)),
            warmup: 1,
            cold: false,
            timeout: Duration::from_secs(60),
            seed: 0,
            accept_failure: false,
        }
    }
}

/// All that was measured.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The variants as they were given, then the control: the first one again.
    pub variants: Vec<Timed>,
    /// Rounds that count.
    pub rounds: usize,
}

/// What was measured of one variant.
#[derive(Clone, Debug)]
pub struct Timed {
    /// Its name; that of the control is the first variant's.
    pub name: String,
    /// True for the first variant's second time.
    pub control: bool,
    /// One element a round.
    pub runs: Vec<Taken>,
    /// The spread of their times in nanoseconds.
    pub spread: Spread,
    /// Its times against the first variant's, round by round; `None` for the first.
    pub ratio: Option<Ratio>,
}

impl Timed {
    /// The median of the processor times in nanoseconds; `None` where they were not
    /// taken.
    #[must_use]
    pub fn cpu_median_ns(&self) -> Option<f64> {
        let times: Vec<f64> = self.runs.iter().map(|run| run.cpu_ns as f64).collect();
        times.iter().any(|&time| time > 0.0).then(|| Spread::of(&times).median)
    }
}

/// Measures the variants, the first of which the others are compared with. `done` is told
/// after each start how many of how many are done.
///
/// # Errors
/// A variant cannot be started, fails, or takes too long; caches cannot be dropped.
/// Nothing that was started is left running, but for what a failing or endless program
/// had detached itself.
pub fn measure(
    variants: &[Variant],
    options: &Options,
    done: &mut dyn FnMut(usize, usize),
) -> Result<Measured, BenchError> {
    let Some(first) = variants.first() else { return Err(BenchError::Nothing) };
    if options.cold {
        caches::drop()?;
    }
    let all: Vec<&Variant> = variants.iter().chain([first]).collect();
    let starts = all
        .iter()
        .map(|variant| run::Start::new(variant, options))
        .collect::<Result<Vec<_>, _>>()?;
    let warm = warm_up(&starts, options)?;
    let rounds = match options.rounds {
        Rounds::Exactly(rounds) => rounds.clamp(1, *ROUNDS.end()),
        Rounds::Within(time) => expected(time, warm),
    };
    let mut runs: Vec<Vec<Taken>> = vec![Vec::with_capacity(rounds); all.len()];
    let mut rng = Rng::with_seed(options.seed);
    let mut order: Vec<usize> = (0..all.len()).collect();
    for round in 0..rounds {
        rng.shuffle(&mut order);
        for (nth, &at) in order.iter().enumerate() {
            runs[at].push(starts[at].once(options)?);
            done(round * all.len() + nth + 1, rounds * all.len());
        }
    }
    Ok(Measured { variants: timed(&all, runs), rounds })
}

/// Starts each variant before the clock counts; how long the last round took.
fn warm_up(starts: &[run::Start], options: &Options) -> Result<Duration, BenchError> {
    let mut took = Duration::ZERO;
    for _ in 0..options.warmup.max(1) {
        let began = Instant::now();
        for start in starts {
            start.trial(options)?;
        }
        took = began.elapsed();
    }
    Ok(took)
}

/// How many rounds fit into a time.
fn expected(time: Duration, round: Duration) -> usize {
    let fit = time.as_nanos() / round.as_nanos().max(1);
    usize::try_from(fit).unwrap_or(usize::MAX).clamp(*ROUNDS.start(), *ROUNDS.end())
}

/// The runs with what they come to.
fn timed(all: &[&Variant], runs: Vec<Vec<Taken>>) -> Vec<Timed> {
    let walls: Vec<Vec<f64>> =
        runs.iter().map(|runs| runs.iter().map(|run| run.wall_ns as f64).collect()).collect();
    let last = all.len() - 1;
    let one = |(at, runs): (usize, Vec<Taken>)| Timed {
        name: all[at].name.clone(),
        control: at == last,
        runs,
        spread: Spread::of(&walls[at]),
        ratio: (at > 0).then(|| Ratio::of_pairs(&walls[at], &walls[0])),
    };
    runs.into_iter().enumerate().map(one).collect()
}
