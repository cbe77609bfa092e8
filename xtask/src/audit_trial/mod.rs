//! Programs with and without the audit module: the same objects in the same order, the same
//! output, the same exit code.
//!
//! Each program is started as the user nobody in an empty folder, as
//! [`crate::trace_differential`] does: plainly, twice where the output differs, to tell what
//! varies by itself; calmed; and, for the objects, once more calmed and once under the module
//! without a table, both with the module's log.

pub mod make;
mod same;

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use becalm_core::index::split;
use becalm_host::index_store::Indexed;
use rayon::prelude::*;

use crate::trace_differential::choose;
use crate::trace_differential::run::open_folder;
use same::{Files, Verdict};

/// What to try.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// A store to index and whose programs to start.
    #[arg(long, value_name = "DIR", required_unless_present = "index")]
    store: Vec<PathBuf>,
    /// An index to try, instead of one made of the stores.
    #[arg(long, value_name = "FILE")]
    index: Option<PathBuf>,
    /// Directories to index as of `LD_LIBRARY_PATH`, which is set to them in each start.
    #[arg(long, value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// How many programs of /usr/bin to take.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    programs: usize,
    /// Take those of /usr/sbin as well, all of them.
    #[arg(long)]
    sbin: bool,
    /// What the sample is drawn by: the same seed, the same programs.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// The module to use, instead of one built here; it may be for another machine.
    #[arg(long, value_name = "FILE")]
    module: Option<PathBuf>,
    /// Write the index here and try nothing.
    #[arg(long, value_name = "FILE")]
    write_index: Option<PathBuf>,
    /// How many starts at a time.
    #[arg(long, value_name = "N", default_value_t = 2)]
    threads: usize,
    /// How many differences to print.
    #[arg(long, value_name = "K", default_value_t = 40)]
    show: usize,
}

/// Tries; exit code 1 where anything differs.
///
/// # Errors
/// The module or the index cannot be made or read.
pub fn run(options: &Options) -> Result<ExitCode> {
    let scratch = open_folder()?;
    let index = scratch.path().join("index.so");
    let out = options.write_index.as_ref().unwrap_or(&index);
    match &options.index {
        Some(given) => {
            std::fs::copy(given, out).with_context(|| given.display().to_string())?;
        }
        None => {
            let built = || make::module(scratch.path());
            let module = options.module.clone().map_or_else(built, Ok)?;
            describe(&make::index(&options.store, &options.dirs, &module, out)?);
        }
    }
    if options.write_index.is_some() {
        return Ok(ExitCode::SUCCESS);
    }
    let bare = scratch.path().join("bare.so");
    let file = std::fs::read(&index)?;
    std::fs::write(&bare, split(&file)?.0)?;
    for path in [&index, &bare] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644))?;
    }
    let library_path = std::env::join_paths(&options.dirs)?.into_string();
    ensure!(library_path.is_ok(), "a directory's name is no text");
    let files = Files { index, bare, library_path: library_path.unwrap_or_default() };
    compare(options, &files)
}

fn compare(options: &Options, files: &Files) -> Result<ExitCode> {
    let mut trials = choose::trials(&options.store, options.programs, options.seed)?;
    if options.sbin {
        trials.extend(choose::administration());
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.threads).build()?;
    let verdicts: Vec<Result<Verdict>> =
        pool.install(|| trials.par_iter().map(|trial| same::hold(files, trial)).collect());
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let (mut clean, mut shown) = (true, 0);
    for (trial, verdict) in trials.iter().zip(&verdicts) {
        let (word, text) = match verdict {
            Ok(Verdict::Same { answered: 0 }) => ("same, no answer", None),
            Ok(Verdict::Same { .. }) => ("same, answered", None),
            Ok(Verdict::Varies) => ("varies by itself", None),
            Ok(Verdict::NoEnd) => ("no end", None),
            Ok(Verdict::Differs(what)) => ("differs", Some(what.clone())),
            Err(error) => ("not run", Some(format!("{error:#}"))),
        };
        *counts.entry((&trial.group, word)).or_default() += 1;
        if let Some(text) = text {
            clean = false;
            shown += 1;
            if shown <= options.show {
                println!("{} {}\n  {text}", trial.program.display(), trial.argument);
            }
        }
    }
    for ((group, word), count) in counts {
        println!("{group:<10}{word:<20}{count:>7}");
    }
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn describe(indexed: &Indexed) {
    for machine in &indexed.machines {
        let edges: usize = machine.index.objects.iter().map(|object| object.edges.len()).sum();
        println!(
            "{:?}: {} objects, {edges} answers, {} questions left, {} guards, {} directories",
            machine.target,
            machine.index.objects.len(),
            machine.left(),
            machine.index.guards.len(),
            machine.index.directories.len()
        );
        for (program, need) in &machine.static_tls {
            println!("  static TLS: {program}: {need:?}, {:?}", need.tunable());
        }
    }
    for error in &indexed.errors {
        println!("{error}");
    }
}
