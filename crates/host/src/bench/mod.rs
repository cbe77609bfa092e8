//! Measures how long programs take to start, with paired and interleaved runs of two or more
//! commands.
//!
//! [`measure`] runs every variant once per round, in a new random order for each round, so that
//! disturbances affect all variants alike. [`stats`] computes medians of the times and ratios of
//! the pairs. The first variant runs twice per round. If the interval of this control's ratio does
//! not include 1, the result is unreliable.
//!
//! [`run`] measures one start, [`caches`] makes the next start a cold one.

mod caches;
mod error;
mod run;
pub mod stats;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fastrand::Rng;

pub use self::caches::{are_droppable, drop as drop_caches};
pub use self::error::BenchError;
pub use self::run::Taken;
use self::stats::{Ratio, Spread};
use crate::trace::Command;

/// Minimum number of rounds for a time budget, and maximum for any run. All pairs of rounds are
/// compared with each other, so memory grows with the square of their number.
const ROUNDS: std::ops::RangeInclusive<usize> = 10..=2000;

/// Moves the calling thread to the place of a start, such as a mount namespace.
pub type Enter = dyn Fn() -> Result<(), Box<dyn Error + Send + Sync>> + Send + Sync;

/// One of the compared commands.
#[derive(Clone)]
pub struct Variant {
    /// The name in the output.
    pub name: String,
    /// The command. Its standard streams are `/dev/null`. A name without a slash is searched for
    /// along `PATH` once, before the measurement.
    pub command: Command,
    /// Called in the calling thread before each start.
    pub enter: Option<Arc<Enter>>,
}

/// End of the measured time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Until {
    /// The end of the program.
    ///
    /// The time begins before its process is created.
    Exit,
    /// Its first idle moment.
    ///
    /// See [`crate::idle`]. The program is killed there.
    Idle,
    /// Its entry point.
    ///
    /// Only the loader's work is measured, from the `execve` on. The program runs under ptrace, stops
    /// at those two places and is killed at the second.
    Entry,
}

/// Number of rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounds {
    /// This number, at most 2,000.
    Exactly(usize),
    /// As many rounds as fit into this time, judged by the last warm-up round: at least 10, at most
    /// 2,000.
    Within(Duration),
}

/// Options of a measurement.
#[derive(Clone, Debug)]
pub struct Options {
    /// End of the measured time.
    pub until: Until,
    /// Number of rounds.
    pub rounds: Rounds,
    /// Rounds before the measurement. At least one is made, which also shows if the commands work.
    pub warmup: usize,
    /// Drop the kernel's caches before each start.
    pub cold: bool,
    /// The files whose pages are dropped if the caches of the machine cannot be.
    pub cold_files: Vec<PathBuf>,
    /// Time limit of each start; a start that exceeds it is killed.
    pub timeout: Duration,
    /// Seed of the random orders: the same seed gives the same orders.
    pub seed: u64,
    /// Accept an exit code other than 0, or a signal.
    pub accept_failure: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            until: Until::Exit,
            rounds: Rounds::Within(Duration::from_secs(5)),
            warmup: 1,
            cold: false,
            cold_files: Vec::new(),
            timeout: Duration::from_secs(60),
            seed: 0,
            accept_failure: false,
        }
    }
}

/// The result of a measurement.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The variants as given, then the control, which is the first one again.
    pub variants: Vec<Timed>,
    /// Number of measured rounds.
    pub rounds: usize,
}

/// The measured times of one variant.
#[derive(Clone, Debug)]
pub struct Timed {
    /// Its name; the control has the first variant's.
    pub name: String,
    /// True for the control.
    pub control: bool,
    /// One element per round.
    pub runs: Vec<Taken>,
    /// The distribution of their times in nanoseconds.
    pub spread: Spread,
    /// Ratio of its times to the first variant's, round by round; `None` for the first variant.
    pub ratio: Option<Ratio>,
}

/// Measures one start of a command.
///
/// # Errors
/// Returns the errors of [`measure`].
pub fn once(command: &Command, options: &Options) -> Result<Taken, BenchError> {
    let (name, command) = (String::new(), command.clone());
    run::Start::new(&Variant { name, command, enter: None }, options)?.once(options)
}

/// Measures the variants and compares them with the first one. After each start `done` is called
/// with the number of finished starts and their total.
///
/// # Errors
/// Returns an error if a variant cannot be started, fails or takes too long, or if the caches
/// cannot be dropped. No started process keeps running, except those that a failing or endless
/// program detached from itself.
pub fn measure(
    variants: &[Variant],
    options: &Options,
    done: &mut dyn FnMut(usize, usize),
) -> Result<Measured, BenchError> {
    let Some(first) = variants.first() else { return Err(BenchError::Nothing) };
    if options.cold {
        caches::drop(&options.cold_files)?;
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

/// Starts each variant before the measurement. Returns the duration of the last round.
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

/// Returns the number of rounds that fit into a time.
fn expected(time: Duration, round: Duration) -> usize {
    let fit = time.as_nanos() / round.as_nanos().max(1);
    usize::try_from(fit).unwrap_or(usize::MAX).clamp(*ROUNDS.start(), *ROUNDS.end())
}

/// Combines the runs with their statistics.
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
