//! Compares the model with real loaders, on many objects.
//!
//! The objects are the dynamic programs and libraries of this machine, of lab stores and of foreign
//! sysroots ([`candidates`]). Each is started with and without `LD_LIBRARY_PATH`, predicted, and
//! compared probe by probe ([`trial`]).

pub(crate) mod candidates;
mod trial;

use std::io::IsTerminal;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;
use rayon::prelude::*;

use candidates::Selection;
use trial::{Trial, Verdict};

use crate::tally::Tally;

/// The counts of a place and group.
const COLUMNS: [&str; 7] =
    ["objects", "starts", "probes", "misses", "differ", "no answer", "not run"];

/// Options of the comparison.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    #[command(flatten)]
    selection: Selection,
    /// Also run musl's loader on a sample of this machine's objects.
    #[arg(long)]
    musl: bool,
}

/// Compares. Returns false if anything differs.
///
/// # Errors
/// Returns an error if a folder cannot be read or an emulated loader does not print its facts.
pub fn run(options: &Options) -> Result<bool> {
    let selection = &options.selection;
    let empty = tempfile::tempdir()?;
    let mut places = candidates::places(selection, options.musl)?;
    let mut objects = Vec::new();
    for place in &mut places {
        let (found, left_out) = place.find();
        eprintln!("{}: {} objects to start", place.label, found.len());
        for (reason, count) in left_out {
            eprintln!("  {count} ELF files left out: {reason}");
        }
        let found = selection.of(place, found);
        place.read_facts(&found);
        objects.push(found);
    }
    let trials: Vec<Trial> = places
        .iter()
        .zip(&objects)
        .flat_map(|(place, found)| found.iter().map(move |object| (place, object)))
        .flat_map(|(place, object)| trial::of(place, object, empty.path()))
        .collect();
    let tally = tally(&trials, &verdicts(&trials, Trial::compare));
    print!("{}", tally.text((46, 11), &COLUMNS));
    Ok(tally.differences() == 0)
}

/// Adds the verdicts up.
fn tally(trials: &[Trial<'_>], verdicts: &[Verdict]) -> Tally {
    let mut tally = Tally::default();
    for (trial, verdict) in trials.iter().zip(verdicts) {
        let (place, object) = (&trial.place.label, trial.object);
        let counts = tally.group(place, format!("{} {}", object.machine, verdict.libc));
        counts.add("objects", usize::from(!trial.has_library_path));
        counts.add("starts", 1);
        counts.add("probes", verdict.probes);
        counts.add("misses", verdict.misses);
        if let Some((kind, what)) = &verdict.wrong {
            counts.add(kind, 1);
            let with = if trial.has_library_path { " with LD_LIBRARY_PATH" } else { "" };
            tally.differs(format!("{place}: {:?}{with}", object.path), what.clone());
        }
    }
    tally
}

/// Returns the verdicts of all trials, with a counter on a terminal. `RAYON_NUM_THREADS` sets the number of
/// concurrent starts.
pub(crate) fn verdicts<T: Sync, V: Send>(trials: &[T], verdict: impl Fn(&T) -> V + Sync) -> Vec<V> {
    let done = AtomicUsize::new(0);
    let terminal = std::io::stderr().is_terminal();
    let one = |trial| {
        let verdict = verdict(trial);
        let count = done.fetch_add(1, Ordering::Relaxed) + 1;
        if terminal && (count.is_multiple_of(25) || count == trials.len()) {
            eprint!("\r{count} of {}", trials.len());
        }
        verdict
    };
    let verdicts = trials.par_iter().map(one).collect();
    if terminal && !trials.is_empty() {
        eprintln!();
    }
    verdicts
}
