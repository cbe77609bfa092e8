//! `lab bench strategies`: counts the loader's misses and system calls with each strategy, for
//! every program of one or more stores. It takes no times, so a busy machine changes nothing.
//!
//! strace counts the starts without a strategy, with an index, with absolute names and with farms.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;

use super::calm::calm;
use super::write_text;
use crate::import::manifest::Manifest;
use crate::mount_namespace::MountNamespace;
use crate::words::grouped;
use crate::{becalm, child};

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

/// The variants of starting a store's programs: each with its strategy if it changes the store.
const VARIANTS: [(&str, Option<&str>); 4] =
    [("as it is", None), (INDEX, None), ("absolute", Some("absolute")), ("farm", Some("farm"))];
const INDEX: &str = "index";

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
    /// System calls of the loader.
    calls: usize,
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
    let manifest = Manifest::read(&store)?.context("no imported store")?;
    let scratch = tempfile::tempdir()?;
    let index = scratch.path().join("index.so");
    becalm::index(tool, &store, &index)?;
    let mut all = Vec::new();
    for (variant, strategy) in VARIANTS {
        // An index answers only for the files of which it was made.
        let place = match strategy {
            Some(_) => MountNamespace::with_copy(&store)?,
            None => MountNamespace::new(&[])?,
        };
        place.run(|| strategy.map_or(Ok(()), |strategy| becalm::fix(tool, strategy, &store)))??;
        let calm = if variant == INDEX { calm(&index) } else { Vec::new() };
        for program in &manifest.programs {
            let (calls, misses) = counted(&place, &program.path, &calm)?;
            all.push(Counted {
                store: store.clone(),
                rpath: manifest.rpath,
                program: program.name.clone(),
                variant,
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
    place: &MountNamespace,
    program: &Path,
    environment: &[(&str, String)],
) -> Result<(usize, usize)> {
    let mut variables = environment.to_vec();
    let listed = [("HOME", "/dev/null/home"), ("LD_TRACE_LOADED_OBJECTS", "1")];
    variables.extend(listed.map(|(name, value)| (name, value.to_owned())));
    let log = place.run(|| child::strace(&["-qq"], &variables, &[program]))??;
    Ok((log.lines().count(), log.lines().filter(|line| is_miss(line)).count()))
}

fn is_miss(line: &str) -> bool {
    let call = line.split('(').next().unwrap_or_default();
    let is_search = call.starts_with("open") || call.contains("stat");
    // The loader always opens the preload file, which is no search for a library.
    is_search && line.contains("= -1 ") && !line.contains("ld.so.preload")
}

fn print(counted: &[Counted]) {
    let Some(first) = counted.first() else { return };
    let kind = if first.rpath { "DT_RPATH" } else { "DT_RUNPATH" };
    let names = VARIANTS.map(|variant| variant.0).join(" | ");
    println!(
        "\n| {}, {kind} | {names} |\n|{}",
        first.store.display(),
        " ---: |".repeat(VARIANTS.len() + 1)
    );
    let programs = counted.iter().take_while(|it| it.variant == first.variant);
    for program in programs.map(|it| &it.program) {
        print!("| {program} |");
        for own in counted.iter().filter(|it| it.program == *program) {
            print!(" {} ({}) |", grouped(own.misses), grouped(own.calls));
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
