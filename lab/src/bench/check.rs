//! `lab bench check`: rounds of all tools on one list of files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use becalm_host::{Format, WalkOptions, find_objects};
use clap::Args;
use rayon::prelude::*;
use serde::Serialize;
use serde_json::json;

use super::closures::{self, Resolved};
use super::run::{self, Taken};
use super::summary::Spread;
use super::tools::{self, OURS, Tool};
use super::{listed, machine, rounds, write_text};
use crate::elf::Dynamic;

/// Directory of the listed files, and their number.
const FOLDER: &str = "/usr";
const FILES: usize = 2500;
/// Number of rounds; each runs every fast tool once.
const ROUNDS: usize = 20;
/// Number of rounds that also run the slow tools.
const SLOW_ROUNDS: usize = 3;
/// Number of measured starts of `becalm check /bin/true`.
const STARTS: usize = 300;
/// File for the raw data.
const RAW: &str = "lab/runs/check.json";

/// Options of the measurement.
#[derive(Args)]
pub(crate) struct CheckBench {
    /// The becalm to measure, as scripts/build prints it
    #[arg(long)]
    becalm: PathBuf,
}

/// All runs of one tool.
#[derive(Serialize)]
struct Measured {
    tool: &'static str,
    resolved: Option<Resolved>,
    peak_memory_bytes: Option<u64>,
    runs: Vec<Taken>,
}

/// Measures, prints the tables and writes the raw data.
pub(super) fn run(args: &CheckBench) -> Result<()> {
    let becalm = args.becalm.canonicalize().context("--becalm: run scripts/build first")?;
    let folder = Path::new(FOLDER);
    let files = choose(folder)?;
    let list_file = listed(&files)?;
    let load = machine::load();
    let tools = measured(&tools::all(&becalm, folder, &files, list_file.path())?, ROUNDS)?;
    let starts = measured(&tools::starts(&becalm), STARTS)?;
    let load = [load, machine::load()];
    println!("{} files of {FOLDER}; load {load:?}\n", files.len());
    print(&tools, &starts);
    let record = json!({
        "schema": "becalm-lab/bench-check/1",
        "date": machine::today(),
        "machine": machine::here(folder),
        "versions": machine::versions(&becalm),
        "load": load,
        "list": { "folder": FOLDER, "files": files.len() },
        "tools": tools,
        "starts": starts,
    });
    fs::create_dir_all("lab/runs")?;
    write_text(Some(Path::new(RAW)), &format!("{record}\n"))?;
    println!("\nraw data: {RAW}");
    Ok(())
}

/// Returns the first objects below `folder`, in order of path, that need other objects. becalm's own parser
/// has no part in the choice.
fn choose(folder: &Path) -> Result<Vec<PathBuf>> {
    let found = find_objects(&[folder.to_owned()], WalkOptions::default()).objects;
    let elf = found.into_par_iter().filter(|object| object.format == Format::Elf);
    let needs = |path: &PathBuf| {
        let has_text = path.to_str().is_some();
        has_text && Dynamic::read(path).is_ok_and(|dynamic| !dynamic.needed.is_empty())
    };
    let mut files: Vec<PathBuf> = elf.map(|object| object.path).filter(needs).collect();
    ensure!(files.len() >= FILES, "{FOLDER}: {} such files, {FILES} wanted", files.len());
    files.truncate(FILES);
    Ok(files)
}

/// Measures every tool in rounds, the slow ones only in the first rounds.
fn measured(tools: &[Tool], count: usize) -> Result<Vec<Measured>> {
    // Counting runs every tool once, which fills the caches for all of them.
    let counted = tools.iter().map(closures::of).collect::<Result<Vec<_>>>()?;
    let runs = rounds(count, tools.len(), |round, at| {
        let takes_part = tools[at].every_round || round < SLOW_ROUNDS;
        takes_part.then(|| run::once(&tools[at])).transpose()
    })?;
    let measured = tools.iter().zip(counted).zip(runs).map(|((tool, resolved), runs)| {
        // The memory of a tool that consists of one process.
        let is_one = tool.name != tools::LIBTREE_EACH;
        let peak_memory_bytes = is_one.then(|| run::peak_memory(tool)).transpose()?;
        let runs = runs.into_iter().flatten().collect();
        Ok(Measured { tool: tool.name, resolved, peak_memory_bytes, runs })
    });
    measured.collect()
}

/// Prints the tables of the run.
fn print(tools: &[Measured], starts: &[Measured]) {
    // Wall-clock time, CPU time, and the ratios of both to those of the first tool. Run n of a tool belongs to
    // round n.
    let spreads = |row: &Measured, first: &Measured| {
        let of = |value: fn(&Taken) -> f64| Spread::of(row.runs.iter().map(value));
        let ratio = |value: fn(&Taken) -> f64| {
            Spread::of(row.runs.iter().zip(&first.runs).map(|(run, our)| value(run) / value(our)))
        };
        let wall = |run: &Taken| run.wall_ms;
        (of(wall), of(Taken::cpu_ms), ratio(wall), ratio(Taken::cpu_ms))
    };
    println!(
        "| tool | rounds | wall, ms | CPU, ms | wall, times {OURS} | CPU, times {OURS} | peak memory, MB | files | libraries |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for row in tools {
        let (wall, cpu, wall_ratio, cpu_ratio) = spreads(row, &tools[0]);
        let memory = row.peak_memory_bytes.map(|bytes| format!("{:.1}", bytes as f64 / 1e6));
        let resolved =
            row.resolved.as_ref().map(|it| [it.files, it.libraries].map(|n| n.to_string()));
        let [files, libraries] = resolved.unwrap_or_default();
        println!(
            "| {} | {} | {wall} | {cpu} | {wall_ratio} | {cpu_ratio} | {} | {files} | {libraries} |",
            row.tool,
            wall.count,
            memory.unwrap_or_default(),
        );
    }
    println!("\n| start | runs | wall, ms | CPU, ms | wall, times the first |");
    println!("| --- | ---: | ---: | ---: | ---: |");
    for row in starts {
        let (wall, cpu, ratio, _) = spreads(row, &starts[0]);
        println!("| {} | {} | {wall} | {cpu} | {ratio} |", row.tool, wall.count);
    }
}
