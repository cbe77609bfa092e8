//! Compares starts with and without the audit module: the same objects in the same order, the same
//! output, the same exit code.
//!
//! Each program is started as the user nobody in an empty folder, as in
//! [`crate::trace_differential`]: without the index (twice if the output differs, to detect output
//! that varies by itself) and with it. For the objects it is started again with the index and with
//! the module without a table, both with the module's log.

pub mod make;
mod same;
pub(crate) mod sysroot;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use becalm_core::edit::RunPathKind;
use becalm_core::index::split;
use becalm_host::index_store::Indexed;

use crate::differential::verdicts;
use crate::trace_differential::choose::{self, Trial};
use crate::trace_differential::run::open_folder;
use crate::trace_differential::tried::{self, Tried};
use same::Files;

/// Options of the trial.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// A store to index and whose programs to start.
    #[arg(long, value_name = "DIR", required_unless_present_any = ["index", "sysroot"])]
    store: Vec<PathBuf>,
    /// Roots of other machines or glibc releases (scripts/sysroots): each is made into a store
    /// whose programs are all started, under qemu-user if necessary. `CC_<MACHINE>` names the
    /// compiler of its module (default: the usual cross compiler).
    #[arg(long, value_name = "DIR")]
    sysroot: Vec<PathBuf>,
    /// Give the stores made from roots `DT_RPATH` instead of `DT_RUNPATH`: programs get one with
    /// all directories, libraries one without the directories of their needed libraries.
    #[arg(long, requires = "sysroot")]
    rpath: bool,
    /// An index to try instead of one made from the stores.
    #[arg(long, value_name = "FILE")]
    index: Option<PathBuf>,
    /// Directories to index for `LD_LIBRARY_PATH`, which is set to them in each start.
    #[arg(long, value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// Number of programs of /usr/bin.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    programs: usize,
    /// Also start all programs of /usr/sbin.
    #[arg(long)]
    sbin: bool,
    /// Seed of the sample: the same seed selects the same programs.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// The module to use instead of building one; it may be for another machine.
    #[arg(long, value_name = "FILE")]
    module: Option<PathBuf>,
    /// Write the index to this file and start nothing.
    #[arg(long, value_name = "FILE")]
    write_index: Option<PathBuf>,
    /// Number of concurrent starts.
    #[arg(long, value_name = "N", default_value_t = 2)]
    threads: usize,
    /// Number of differences to print.
    #[arg(long, value_name = "K", default_value_t = 40)]
    show: usize,
}

/// Runs the trial. Returns false if anything differs.
///
/// # Errors
/// Returns an error if the module or the index cannot be made or read.
pub fn run(options: &Options) -> Result<bool> {
    if !options.sysroot.is_empty() {
        let mut clean = true;
        for root in &options.sysroot {
            clean &= run_root(options, root).with_context(|| root.display().to_string())?;
        }
        return Ok(clean);
    }
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
        return Ok(true);
    }
    let bare = bare(&index)?;
    let library_path = std::env::join_paths(&options.dirs)?.into_string();
    ensure!(library_path.is_ok(), "a directory's name is no text");
    let library_path = library_path.unwrap_or_default();
    let files = Files { index, bare, library_path, emulator: None };
    let mut trials = choose::trials(&options.store, options.programs, options.seed)?;
    if options.sbin {
        trials.extend(choose::all(Path::new("/usr/sbin"), "sbin"));
    }
    compare(options, &files, &trials)
}

/// Tries the programs of one root. Returns true if nothing differs.
fn run_root(options: &Options, root: &Path) -> Result<bool> {
    let scratch = open_folder()?;
    let store = scratch.path().join("store");
    let kind = if options.rpath { RunPathKind::Rpath } else { RunPathKind::Runpath };
    let made = sysroot::make(root, &store, kind)?;
    let module = make::module_of(&made.machine, scratch.path())?;
    let index = scratch.path().join("index.so");
    describe(&make::index(&[store], &[], &module, &index)?);
    let bare = bare(&index)?;
    let files = Files { index, bare, library_path: String::new(), emulator: made.emulator };
    let group = root.file_name().unwrap_or_default().to_string_lossy();
    let trials: Vec<Trial> =
        made.programs.iter().flat_map(|program| choose::both(&group, program)).collect();
    compare(options, &files, &trials)
}

/// Copies the module of an index without its table into the same directory, and makes both
/// readable.
fn bare(index: &Path) -> Result<PathBuf> {
    let bare = index.with_file_name("bare.so");
    let file = std::fs::read(index)?;
    std::fs::write(&bare, split(&file)?.0)?;
    for path in [index, &bare] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644))?;
    }
    Ok(bare)
}

/// Returns true if nothing differs.
fn compare(options: &Options, files: &Files, trials: &[Trial]) -> Result<bool> {
    let verdicts = verdicts(options.threads, trials, |trial| same::compare(files, trial))?;
    let mut answers = 0;
    let named = |(trial, verdict): (&Trial, Result<(Tried, usize)>)| {
        answers += verdict.as_ref().map_or(0, |(_, answered)| *answered);
        (trial.group.clone(), trial.line(), verdict.map(|(tried, _)| tried))
    };
    let (_, clean) = tried::print(trials.iter().zip(verdicts).map(named), options.show);
    println!("{answers} questions answered, in one start of each");
    Ok(clean)
}

fn describe(indexed: &Indexed) {
    for machine in &indexed.machines {
        let edges: usize = machine.index.objects.iter().map(|object| object.edges.len()).sum();
        println!(
            "{:?}: {} objects, {edges} answers, {} questions left, {} guards, {} directories",
            machine.target,
            machine.index.objects.len(),
            machine.deferred(),
            machine.index.conditions.len(),
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
