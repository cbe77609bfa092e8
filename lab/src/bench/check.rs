//! `lab bench check`: rounds of all tools on one list of files.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Serialize;
use serde_json::json;

use super::closures::{self, Resolved};
use super::list;
use super::machine;
use super::run::{self, Taken};
use super::summary::Spread;
use super::tools::{self, OURS, Tool};
use super::write_text;

/// Options of the measurement.
#[derive(Args)]
pub(crate) struct CheckBench {
    /// The becalm to measure, as scripts/build prints it
    #[arg(long)]
    becalm: PathBuf,
    /// Directory of the listed files
    #[arg(long, default_value = "/usr")]
    folder: PathBuf,
    /// Number of files on the list
    #[arg(long, default_value_t = 2500)]
    files: usize,
    /// Number of rounds; each runs every fast tool once
    #[arg(long, default_value_t = 20)]
    rounds: usize,
    /// Number of rounds that also run the slow tools
    #[arg(long, default_value_t = 3)]
    slow_rounds: usize,
    /// Number of measured starts of `becalm check /bin/true`
    #[arg(long, default_value_t = 300)]
    starts: usize,
    /// Date for the record; today by default
    #[arg(long)]
    date: Option<String>,
    /// Name of the raw data, lab/runs/NAME.json
    #[arg(long, default_value = "check")]
    name: String,
    /// Directory of the raw data
    #[arg(long, default_value = "lab/runs")]
    out: PathBuf,
}

/// All runs of one tool.
#[derive(Serialize)]
struct Measured {
    tool: Tool,
    resolved: Option<Resolved>,
    peak_memory_bytes: Option<u64>,
    wall_ms: Spread,
    cpu_ms: Spread,
    /// Ratio of this tool's time to the first tool's in the same round.
    wall_ratio: Spread,
    cpu_ratio: Spread,
    runs: Vec<Taken>,
}

/// Measures, prints the tables and writes the raw data.
pub(super) fn run(args: &CheckBench) -> Result<()> {
    let becalm = args.becalm.canonicalize().context("--becalm: run scripts/build first")?;
    if args.rounds == 0 || args.starts == 0 {
        bail!("nothing is measured in no round");
    }
    let files = list::choose(&args.folder, args.files)?;
    let mut list_file = tempfile::NamedTempFile::new()?;
    for file in &files {
        writeln!(list_file, "{}", file.display())?;
    }
    list_file.flush()?;
    let load = machine::load();
    let tools = tools::all(&becalm, &args.folder, &files, list_file.path())?;
    // Counting runs every tool once, which fills the caches for all of them.
    let counted = tools.iter().map(closures::of).collect::<Result<Vec<_>>>()?;
    let memory = memory(&tools)?;
    let runs = rounds(&tools, args.rounds, args.slow_rounds)?;
    let starts = tools::starts(&becalm);
    let start_runs = rounds(&starts, args.starts, args.starts)?;
    let load = [load, machine::load()];
    let tools = measured(tools, runs, counted, memory);
    let starts = measured(starts, start_runs, Vec::new(), Vec::new());
    println!("{} files of {}; load {load:?}\n", files.len(), args.folder.display());
    print(&tools, &starts);
    let list =
        json!({ "folder": args.folder, "files": files.len(), "sha256": list::digest(&files) });
    let record = json!({
        "schema": "becalm-lab/bench-check/1",
        "date": args.date.clone().unwrap_or_else(machine::today),
        "machine": machine::here(&args.folder),
        "versions": machine::versions(&becalm),
        "load": load,
        "cache": "warm",
        "list": list,
        "tools": tools,
        "starts": starts,
    });
    fs::create_dir_all(&args.out)?;
    let path = args.out.join(format!("{}.json", args.name));
    write_text(Some(&path), &format!("{record}\n"))?;
    println!("\nraw data: {}", path.display());
    Ok(())
}

/// Measures the memory of the tools that consist of one process.
fn memory(tools: &[Tool]) -> Result<Vec<Option<u64>>> {
    let one_process = |tool: &Tool| tool.name != tools::LIBTREE_EACH;
    tools.iter().map(|tool| one_process(tool).then(|| run::peak_memory(tool)).transpose()).collect()
}

/// Runs every tool once per round, the slow ones only in the first rounds. Each round begins with
/// another tool, so that no tool always follows the same one.
fn rounds(tools: &[Tool], rounds: usize, slow_rounds: usize) -> Result<Vec<Vec<Taken>>> {
    let mut runs: Vec<Vec<Taken>> = vec![Vec::new(); tools.len()];
    for round in 0..rounds {
        for step in 0..tools.len() {
            let at = (round + step) % tools.len();
            if tools[at].every_round || round < slow_rounds {
                runs[at].push(run::once(&tools[at])?);
            }
        }
    }
    Ok(runs)
}

fn measured(
    tools: Vec<Tool>,
    runs: Vec<Vec<Taken>>,
    counted: Vec<Option<Resolved>>,
    memory: Vec<Option<u64>>,
) -> Vec<Measured> {
    let ours = runs.first().cloned().unwrap_or_default();
    let counted = counted.into_iter().chain(std::iter::repeat(None));
    let memory = memory.into_iter().chain(std::iter::repeat(None));
    let all = tools.into_iter().zip(runs).zip(counted.zip(memory));
    all.map(|((tool, runs), (resolved, peak_memory_bytes))| {
        let of = |value: fn(&Taken) -> f64| Spread::of(runs.iter().map(value));
        // Run n of a tool belongs to round n.
        let ratio = |value: fn(&Taken) -> f64| {
            Spread::of(runs.iter().zip(&ours).map(|(run, our)| value(run) / value(our)))
        };
        Measured {
            resolved,
            peak_memory_bytes,
            wall_ms: of(|run| run.wall_ms),
            cpu_ms: of(Taken::cpu_ms),
            wall_ratio: ratio(|run| run.wall_ms),
            cpu_ratio: ratio(Taken::cpu_ms),
            tool,
            runs,
        }
    })
    .collect()
}

/// Prints the tables of the run.
fn print(tools: &[Measured], starts: &[Measured]) {
    println!(
        "| tool | rounds | wall, ms | CPU, ms | wall, times {OURS} | CPU, times {OURS} | peak memory, MB | files | libraries |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for row in tools {
        let memory = row.peak_memory_bytes.map(|bytes| format!("{:.1}", bytes as f64 / 1e6));
        let resolved = row.resolved.as_ref();
        println!(
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            row.tool.name,
            row.wall_ms.count,
            row.wall_ms,
            row.cpu_ms,
            row.wall_ratio,
            row.cpu_ratio,
            memory.unwrap_or_default(),
            resolved.map(|resolved| resolved.files.to_string()).unwrap_or_default(),
            resolved.map(|resolved| resolved.libraries.to_string()).unwrap_or_default(),
        );
    }
    println!();
    println!("| start | runs | wall, ms | CPU, ms | wall, times the first |");
    println!("| --- | ---: | ---: | ---: | ---: |");
    for row in starts {
        let (wall, cpu, ratio) = (row.wall_ms, row.cpu_ms, row.wall_ratio);
        println!("| {} | {} | {wall} | {cpu} | {ratio} |", row.tool.name, wall.count);
    }
}
