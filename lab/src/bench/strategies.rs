//! `lab bench strategies`: counts the loader's misses and system calls with each strategy, for
//! every program of one or more stores. It takes no times, so a busy machine changes nothing.
//!
//! strace counts the starts without a strategy, with an index, with absolute names and with farms.
//! Notes and the loader caches of packages need a patched loader; their misses are those that
//! `becalm check --reads` predicts for the files that `becalm fix` wrote.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use serde_json::Value;

use super::calm::calm;
use super::write_text;
use crate::becalm::{becalm, fix};
use crate::child;
use crate::import::manifest::Manifest;
use crate::stored::Place;
use crate::words::grouped;

/// Options of the counts.
#[derive(Args)]
pub(crate) struct StrategiesBench {
    /// A store; may be repeated
    #[arg(long, default_value = "target/lab/store")]
    store: Vec<PathBuf>,
    /// The becalm to use
    #[arg(long, default_value = "target/release/becalm")]
    becalm: PathBuf,
    /// File for the counts, one JSON array
    #[arg(long)]
    raw: Option<PathBuf>,
}

/// A variant of starting a store's programs.
#[derive(Clone, Copy)]
enum Variant {
    Plain,
    Index,
    /// With a strategy that the machine's own loader supports.
    Fixed(&'static str),
    /// With a strategy that needs a patched loader.
    Read(&'static str),
}

const VARIANTS: [(&str, Variant); 6] = [
    ("as it is", Variant::Plain),
    ("index", Variant::Index),
    ("note (predicted)", Variant::Read("note")),
    ("ldcache (predicted)", Variant::Read("ldcache")),
    ("absolute", Variant::Fixed("absolute")),
    ("farm", Variant::Fixed("farm")),
];

/// Counts of one program in one variant.
#[derive(Serialize)]
struct Counted {
    store: PathBuf,
    rpath: bool,
    program: String,
    #[serde(rename = "way")]
    variant: &'static str,
    /// Failed opens and stats of the loader.
    misses: usize,
    /// System calls of the loader; absent if the misses are predicted.
    calls: Option<usize>,
}

/// Counts each store and prints a table.
///
/// # Errors
/// Returns an error if a store was not imported, if this is not root, or if a tool fails.
pub(super) fn run(args: &StrategiesBench) -> Result<()> {
    let tool = args.becalm.canonicalize().with_context(|| args.becalm.display().to_string())?;
    let mut all = Vec::new();
    for store in &args.store {
        let counted = of_store(&tool, store)?;
        print(&counted);
        all.extend(counted);
    }
    write_text(args.raw.as_deref(), &(serde_json::to_string_pretty(&all)? + "\n"))
}

/// Counts every program of a store in each variant.
fn of_store(tool: &Path, store: &Path) -> Result<Vec<Counted>> {
    let store = store.canonicalize().with_context(|| store.display().to_string())?;
    let stored = store.to_str().context("a store with a name in UTF-8")?;
    let manifest = Manifest::read(&store)?.context("no imported store")?;
    let scratch = tempfile::tempdir()?;
    let index = scratch.path().join("index.so");
    let index = index.to_str().context("a folder for scratch files with a name in UTF-8")?;
    becalm(tool, &["index", "--store", stored, stored, "-o", index])?;
    let mut all = Vec::new();
    for (name, variant) in VARIANTS {
        let place = match variant {
            // An index answers only for the files of which it was made.
            Variant::Plain | Variant::Index => Place::plain()?,
            Variant::Fixed(_) | Variant::Read(_) => Place::of(&store)?,
        };
        if let Variant::Fixed(strategy) | Variant::Read(strategy) = variant {
            place.run(|| fix(tool, strategy, stored))?;
        }
        for program in &manifest.programs {
            let (misses, calls) = match variant {
                Variant::Read(strategy) => {
                    (place.run(|| predicted(tool, strategy, stored, &program.path))?, None)
                }
                _ => {
                    let is_index = matches!(variant, Variant::Index);
                    let calm = if is_index { calm(Path::new(index)) } else { Vec::new() };
                    let (calls, misses) = counted(&place, &program.path, &calm)?;
                    (misses, Some(calls))
                }
            };
            all.push(Counted {
                store: store.clone(),
                rpath: manifest.rpath,
                program: program.name.clone(),
                variant: name,
                misses,
                calls,
            });
        }
    }
    Ok(all)
}

/// Counts the loader's system calls for one program in one place, with variables, and its failed opens
/// and stats.
fn counted(
    place: &Place,
    program: &Path,
    environment: &[(&str, String)],
) -> Result<(usize, usize)> {
    let log = tempfile::NamedTempFile::new()?;
    let mut strace = child::command("strace");
    strace.env("HOME", "/dev/null/home").arg("-qq").arg("-o").arg(log.path());
    // strace sets them for the program, so that they do not affect strace itself.
    strace.args(environment.iter().map(|(name, value)| format!("-E{name}={value}")));
    strace.arg("-ELD_TRACE_LOADED_OBJECTS=1").arg(program);
    place.run(|| child::succeed(&mut strace))?;
    let log = fs::read_to_string(log.path())?;
    Ok((log.lines().count(), log.lines().filter(|line| is_miss(line)).count()))
}

fn is_miss(line: &str) -> bool {
    let call = line.split('(').next().unwrap_or_default();
    let is_search = call.starts_with("open") || call.contains("stat");
    // The loader always opens the preload file, which is no search for a library.
    is_search && line.contains("= -1 ") && !line.contains("ld.so.preload")
}

/// Returns the predicted misses with a loader that reads the strategy's files.
fn predicted(tool: &Path, strategy: &str, store: &str, program: &Path) -> Result<usize> {
    let mut command = child::command(tool);
    command.args(["check", "--json", "--reads", strategy, "--store", store]).arg(program);
    let report: Value = serde_json::from_str(&child::finish(&mut command)?.stdout)?;
    let storm = &report["programs"][0]["storm"];
    let count = |field: &str| storm[field].as_u64().with_context(|| format!("no {field}"));
    Ok(usize::try_from(count("missed_opens")? + count("missed_stats")?)?)
}

fn print(counted: &[Counted]) {
    let Some(first) = counted.first() else { return };
    let kind = if first.rpath { "DT_RPATH" } else { "DT_RUNPATH" };
    let names = VARIANTS.map(|(name, _)| name).join(" | ");
    println!("\n| {}, {kind} | {names} |\n|{}", first.store.display(), " ---: |".repeat(7));
    let programs = counted.iter().take_while(|it| it.variant == first.variant);
    for program in programs.map(|it| &it.program) {
        print!("| {program} |");
        for own in counted.iter().filter(|it| it.program == *program) {
            let calls = own.calls.map(|calls| format!(" ({})", grouped(calls)));
            print!(" {}{} |", grouped(own.misses), calls.unwrap_or_default());
        }
        println!();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_miss_is_a_failed_open_or_stat_of_a_library() {
        assert!(is_miss("openat(AT_FDCWD, \"/s/liba.so\", O_RDONLY) = -1 ENOENT (No such)"));
        assert!(is_miss("newfstatat(AT_FDCWD, \"/s/\", 0x7ffe, 0) = -1 ENOENT (No such)"));
        assert!(!is_miss("openat(AT_FDCWD, \"/etc/ld.so.preload\", O_RDONLY) = -1 ENOENT"));
        assert!(!is_miss("access(\"/etc/ld.so.preload\", R_OK) = -1 ENOENT"));
        assert!(!is_miss("openat(AT_FDCWD, \"/s/liba.so\", O_RDONLY) = 3"));
    }
}
