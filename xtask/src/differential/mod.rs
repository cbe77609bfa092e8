//! Compares the model with real loaders, on many objects.
//!
//! The objects are the dynamic programs and libraries of this machine, of lab stores and of foreign
//! sysroots ([`candidates`]). Each is started with and without `LD_LIBRARY_PATH`, predicted, and
//! compared probe by probe ([`trial`]). [`summary`] counts the results and prints them.

pub(crate) mod candidates;
mod summary;
mod trial;

use std::io::IsTerminal;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use rayon::prelude::*;

use candidates::{Place, PlaceArgs};
use summary::Summary;
use trial::Trial;

/// Options of the comparison.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Every object, not a sample.
    #[arg(long)]
    all: bool,
    /// Number of objects of each place.
    #[arg(long, value_name = "N", default_value_t = 300)]
    sample: usize,
    /// Seed of the sample: the same seed selects the same objects.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    places: PlaceArgs,
    /// Also run musl's loader on a sample of this machine's objects.
    #[arg(long)]
    musl: bool,
    /// Compare only with LD_DEBUG and not with strace.
    #[arg(long)]
    no_strace: bool,
    /// Number of differences to print in full.
    #[arg(long, value_name = "K", default_value_t = 10)]
    show: usize,
    /// Number of concurrent starts.
    #[arg(long, value_name = "N", default_value_t = 2)]
    threads: usize,
    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
}

/// Compares. Returns false if anything differs.
///
/// # Errors
/// Returns an error if a folder cannot be read or an emulated loader does not print its facts.
pub fn run(options: &Options) -> Result<bool> {
    let empty = tempfile::tempdir()?;
    let mut places = candidates::places(&options.places, options.musl)?;
    let mut objects = Vec::new();
    for place in &mut places {
        let found = place.objects(options)?;
        place.read_facts(&found);
        objects.push(found);
    }
    let with_strace = !options.no_strace;
    let trials: Vec<Trial> = places
        .iter()
        .zip(&objects)
        .flat_map(|(place, found)| found.iter().map(move |object| (place, object)))
        .flat_map(|(place, object)| trial::of(place, object, empty.path(), with_strace))
        .collect();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.threads).build()?;
    let verdicts = pool.install(|| verdicts(&trials, Trial::compare));
    let summary = Summary::of(&trials, &verdicts);
    if options.json {
        println!("{}", serde_json::to_string_pretty(&summary.json(options.show))?);
    } else {
        print!("{}", summary.text(options.show));
    }
    Ok(summary.is_clean())
}

/// Returns the verdicts of all trials, with a counter on a terminal.
pub(crate) fn verdicts<T: Sync, V: Send>(trials: &[T], verdict: impl Fn(&T) -> V + Sync) -> Vec<V> {
    let done = AtomicUsize::new(0);
    let terminal = std::io::stderr().is_terminal();
    let verdicts = trials
        .par_iter()
        .map(|trial| {
            let verdict = verdict(trial);
            let count = done.fetch_add(1, Ordering::Relaxed) + 1;
            if terminal && (count.is_multiple_of(25) || count == trials.len()) {
                eprint!("\r{count} of {} starts", trials.len());
            }
            verdict
        })
        .collect();
    if terminal && !trials.is_empty() {
        eprintln!();
    }
    verdicts
}

impl Place {
    fn objects(&self, options: &Options) -> Result<Vec<candidates::Object>> {
        let (found, left_out) = self.find().with_context(|| self.label.clone())?;
        eprintln!("{}: {} objects to start", self.label, found.len());
        for (reason, count) in left_out {
            eprintln!("  {count} ELF files left out: {reason}");
        }
        if options.all || self.whole {
            return Ok(found);
        }
        Ok(candidates::sample(found, options.sample, options.seed))
    }
}
