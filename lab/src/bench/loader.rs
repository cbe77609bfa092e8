//! `lab bench loader`: measures the cost and the effect of the loader patch. The same programs are
//! started by an unpatched loader, by a patched one without notes, with notes and with package
//! caches, in turn. The first variant runs twice as a control.
//!
//! Run paths are absolute, so each variant has its copy of the store mounted at the store's own
//! path ([`Place`]), and all variants have the same paths.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;
use serde_json::json;

use super::machine;
use super::run::{NO_HOME, timed};
use super::summary::Spread;
use super::write_text;
use crate::becalm::fix;
use crate::child;
use crate::stored::{self, Place};
use crate::words::naming;

/// The programs, with an argument that makes them exit.
const PROGRAMS: [&str; 3] = ["inkscape", "convert-im6.q16", "emacs-nox"];
const ARGUMENT: &str = "--version";

/// Options of the measurement.
#[derive(Args)]
pub(crate) struct LoaderBench {
    /// The becalm that writes notes and caches
    #[arg(long)]
    becalm: PathBuf,
    /// Libraries of a patched glibc that trusts the store: PREFIX/lib of lab build-loader
    #[arg(long, value_name = "DIR")]
    patched: PathBuf,
    /// Libraries of the same build without the patch (lab build-loader --unpatched)
    #[arg(long, value_name = "DIR")]
    unpatched: PathBuf,
    /// The store
    #[arg(long, default_value = "target/lab/store")]
    store: PathBuf,
    /// Number of rounds; each runs every variant once
    #[arg(long, default_value_t = 50)]
    rounds: usize,
    /// File for the raw data, one JSON object
    #[arg(long)]
    raw: Option<PathBuf>,
}

/// A variant of the start.
struct Variant {
    name: &'static str,
    place: Place,
}

/// Measurement of one start.
#[derive(Clone, Copy, Debug, Serialize)]
struct Started {
    /// Wall-clock time.
    wall_ms: f64,
    /// User and kernel time of the program and its reaped children.
    cpu_ms: f64,
    /// Its exit code; -1 if a signal ended it.
    status: i32,
}

/// Measurements of one program in one variant.
#[derive(Serialize)]
struct Measured {
    program: &'static str,
    #[serde(rename = "way")]
    variant: &'static str,
    starts: Vec<Started>,
}

/// Measures each program and prints a table.
///
/// # Errors
/// Returns an error if this is not root, a tool is missing, a program fails, or the raw data cannot
/// be written.
pub(super) fn run(args: &LoaderBench) -> Result<()> {
    let store = args.store.canonicalize().with_context(|| args.store.display().to_string())?;
    let load_before = machine::load();
    let variants = variants(args, &store)?;
    let mut measured = Vec::new();
    for program in PROGRAMS {
        measured.extend(measure(program, &variants, &store, args.rounds)?);
    }
    let run = json!({
        "day": machine::today(),
        "machine": machine::here(&store),
        "load_before": load_before,
        "load_after": machine::load(),
        "rounds": args.rounds,
        "measured": measured,
    });
    write_text(args.raw.as_deref(), &run.to_string())
}

/// Returns the variants; the first one is the base of all ratios.
fn variants(args: &LoaderBench, store: &Path) -> Result<Vec<Variant>> {
    let libraries: [(_, &PathBuf, Option<&str>); 5] = [
        ("unpatched", &args.unpatched, None),
        ("unpatched again", &args.unpatched, None),
        ("patched", &args.patched, None),
        ("patched, notes", &args.patched, Some("note")),
        ("patched, caches", &args.patched, Some("ldcache")),
    ];
    let becalm = args.becalm.canonicalize().with_context(naming(&args.becalm))?;
    let stored = store.to_str().context("a store with a name in UTF-8")?;
    let mut variants = Vec::new();
    for (name, folder, strategy) in libraries {
        let place = Place::of(store)?;
        place.run(|| {
            stored::set_libc(store, std::slice::from_ref(folder))?;
            strategy.map_or(Ok(()), |strategy| fix(&becalm, strategy, stored))
        })?;
        variants.push(Variant { name, place });
    }
    Ok(variants)
}

/// Runs a program to its end in a place.
fn start(place: &Place, program: &Path) -> Result<Started> {
    let mut command = child::command(program);
    command.arg(ARGUMENT).env("HOME", NO_HOME);
    let (taken, status) = place.run(|| timed(command))?;
    let status = status.code().unwrap_or(-1);
    Ok(Started { wall_ms: taken.wall_ms, cpu_ms: taken.cpu_ms(), status })
}

/// Starts one program in every variant, in rounds that each begin with another variant.
fn measure(
    name: &'static str,
    variants: &[Variant],
    store: &Path,
    rounds: usize,
) -> Result<Vec<Measured>> {
    let program = stored::program(store, name)?;
    let start = |at: usize| {
        let variant: &Variant = &variants[at];
        let started = start(&variant.place, &program)?;
        ensure!(started.status == 0, "{name}, {}: status {}", variant.name, started.status);
        Ok(started)
    };
    // The first round fills the caches and is not counted.
    super::rounds(1, variants.len(), |_, at| start(at))?;
    let starts = super::rounds(rounds, variants.len(), |_, at| start(at))?;
    let measured = variants.iter().zip(starts);
    let measured: Vec<Measured> = measured
        .map(|(variant, starts)| Measured { program: name, variant: variant.name, starts })
        .collect();
    print(&measured);
    Ok(measured)
}

fn print(measured: &[Measured]) {
    let Some(first) = measured.first() else { return };
    let program = first.program;
    println!("\n| {program} | wall, ms | times the first (95 %) | CPU, times the first (95 %) |");
    println!("| --- | ---: | ---: | ---: |");
    for own in measured {
        let walls = Spread::of(own.starts.iter().map(|start| start.wall_ms));
        let ratio = |of: fn(&Started) -> f64| {
            let pairs = own.starts.iter().zip(&first.starts);
            median_interval(pairs.map(|(one, other)| of(one) / of(other)).collect())
        };
        let (wall, cpu) = (ratio(|start| start.wall_ms), ratio(|start| start.cpu_ms));
        println!("| {} | {:.1} | {wall} | {cpu} |", own.variant, walls.median);
    }
}

/// Returns the median of ratios and its 95 % interval by the ranks of the sign test, which assumes
/// no distribution.
fn median_interval(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    let count = values.len() as f64;
    let reach = 0.98 * count.sqrt();
    let at = |rank: f64| {
        let last = values.len().saturating_sub(1) as f64;
        values.get(rank.clamp(0.0, last) as usize).copied().unwrap_or(f64::NAN)
    };
    let (low, high) = (at((count / 2.0 - reach).floor()), at((count / 2.0 + reach).ceil()));
    format!("{:.3} ({low:.3} to {high:.3})", Spread::of(values.iter().copied()).median)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_median_lies_around_it() {
        let told = median_interval((0..100).map(f64::from).collect());
        assert_eq!(told, "49.500 (40.000 to 60.000)");
        assert_eq!(median_interval(vec![2.0, 1.0]), "1.500 (1.000 to 2.000)");
    }
}
