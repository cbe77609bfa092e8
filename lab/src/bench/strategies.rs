//! `lab bench strategies`: the loader's misses and system calls with each strategy, for every
//! program of one or more stores. It counts and takes no times, so a busy machine changes nothing.
//!
//! As it is, index, absolute and farm are counted by strace. A note and a loader cache of a package
//! need a patched loader; their misses are those that `becalm check --reads` predicts for the files
//! that `becalm fix` wrote.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use serde_json::Value;

use super::loader::counts;
use crate::child;
use crate::field::{becalm, grouped};
use crate::import::manifest::Manifest;
use crate::stored::Place;

/// What to count.
#[derive(Args)]
pub(crate) struct StrategiesBench {
    /// A store; may be repeated
    #[arg(long, default_value = "target/lab/store")]
    store: Vec<PathBuf>,
    /// The becalm to use
    #[arg(long, default_value = "target/release/becalm")]
    becalm: PathBuf,
    /// Where the counts go, one JSON array
    #[arg(long)]
    raw: Option<PathBuf>,
}

/// How the programs of a store are started.
#[derive(Clone, Copy)]
enum Way {
    Plain,
    Index,
    /// With a strategy that the machine's own loader follows.
    Fixed(&'static str),
    /// With one that a patched loader reads.
    Read(&'static str),
}

const WAYS: [(&str, Way); 6] = [
    ("as it is", Way::Plain),
    ("index", Way::Index),
    ("note (predicted)", Way::Read("note")),
    ("ldcache (predicted)", Way::Read("ldcache")),
    ("absolute", Way::Fixed("absolute")),
    ("farm", Way::Fixed("farm")),
];

/// One program, started one way.
#[derive(Serialize)]
struct Counted {
    store: PathBuf,
    rpath: bool,
    program: String,
    way: &'static str,
    /// Opens and stats of the loader that found nothing.
    misses: usize,
    /// System calls of the loader; absent if the misses are predicted.
    calls: Option<usize>,
}

/// Counts and prints one table a store.
///
/// # Errors
/// Returns one if a store was not imported, if this is not root, or if a tool fails.
pub(super) fn run(args: &StrategiesBench) -> Result<()> {
    let tool = args.becalm.canonicalize().with_context(|| args.becalm.display().to_string())?;
    let mut all = Vec::new();
    for store in &args.store {
        let counted = of_store(&tool, store)?;
        print(&counted);
        all.extend(counted);
    }
    if let Some(raw) = &args.raw {
        let text = serde_json::to_string_pretty(&all)? + "\n";
        std::fs::write(raw, text).with_context(|| raw.display().to_string())?;
    }
    Ok(())
}

/// Every program of a store, each way.
fn of_store(tool: &Path, store: &Path) -> Result<Vec<Counted>> {
    let store = store.canonicalize().with_context(|| store.display().to_string())?;
    let stored = store.to_str().context("a store with a name in UTF-8")?;
    let manifest = Manifest::read(&store)?.context("no imported store")?;
    let scratch = tempfile::tempdir()?;
    let index = scratch.path().join("index.so");
    let index = index.to_str().context("a folder for scratch files with a name in UTF-8")?;
    becalm(tool, &["index", "--store", stored, stored, "-o", index])?;
    let mut all = Vec::new();
    for (name, way) in WAYS {
        let place = Place::of(&store, None)?;
        if let Way::Fixed(strategy) | Way::Read(strategy) = way {
            place.run(|| {
                becalm(tool, &["fix", "--with", strategy, "--no-sync", "--store", stored, stored])
            })?;
        }
        for program in &manifest.programs {
            let (misses, calls) = match way {
                Way::Read(strategy) => {
                    (place.run(|| predicted(tool, strategy, stored, &program.path))?, None)
                }
                Way::Plain | Way::Fixed(_) => counted(&place, &program.path, &[])?,
                Way::Index => counted(&place, &program.path, &calm(index))?,
            };
            all.push(Counted {
                store: store.clone(),
                rpath: manifest.rpath,
                program: program.name.clone(),
                way: name,
                misses,
                calls,
            });
        }
    }
    Ok(all)
}

fn counted(
    place: &Place,
    program: &Path,
    environment: &[String],
) -> Result<(usize, Option<usize>)> {
    let loader = counts::loader(place, program, environment)?;
    Ok((loader.misses, Some(loader.calls)))
}

fn calm(index: &str) -> [String; 2] {
    let tls = "GLIBC_TUNABLES=glibc.rtld.optional_static_tls=8192";
    [format!("LD_AUDIT={index}"), tls.to_owned()]
}

/// The misses of a start by a loader that reads what a strategy writes.
fn predicted(tool: &Path, strategy: &str, store: &str, program: &Path) -> Result<usize> {
    let mut command = child::command(tool);
    command.args(["check", "--json", "--reads", strategy, "--store", store]).arg(program);
    let report: Value = serde_json::from_str(&child::finish(command)?.stdout)?;
    let storm = &report["programs"][0]["storm"];
    let count = |field: &str| storm[field].as_u64().with_context(|| format!("no {field}"));
    Ok(usize::try_from(count("missed_opens")? + count("missed_stats")?)?)
}

fn print(counted: &[Counted]) {
    let Some(first) = counted.first() else { return };
    let kind = if first.rpath { "DT_RPATH" } else { "DT_RUNPATH" };
    let names = WAYS.map(|(name, _)| name).join(" | ");
    println!("\n| {}, {kind} | {names} |\n|{}", first.store.display(), " ---: |".repeat(7));
    let programs = counted.iter().take_while(|it| it.way == first.way);
    for program in programs.map(|it| &it.program) {
        print!("| {program} |");
        for own in counted.iter().filter(|it| it.program == *program) {
            let calls = own.calls.map(|calls| format!(" ({})", grouped(calls)));
            print!(" {}{} |", grouped(own.misses), calls.unwrap_or_default());
        }
        println!();
    }
}
