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

use anyhow::{Context, Result};
use becalm_core::index::split;

use crate::differential::verdicts;
use crate::trace_differential::choose::{self, Trial};
use crate::trace_differential::run::open_folder;
use crate::trace_differential::tried::{self, Tried};
use same::Files;

/// Options of the trial.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// A store to index and whose programs to start.
    #[arg(long, value_name = "DIR", required_unless_present = "sysroot")]
    store: Vec<PathBuf>,
    /// Roots of other machines or glibc releases (scripts/sysroots): each is made into a store
    /// whose programs are all started, under qemu-user if necessary. `CC_<MACHINE>` names the
    /// compiler of its module (default: the usual cross compiler).
    #[arg(long, value_name = "DIR")]
    sysroot: Vec<PathBuf>,
    /// Number of programs of /usr/bin.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    programs: usize,
    /// Also start all programs of /usr/sbin.
    #[arg(long)]
    sbin: bool,
    /// Seed of the sample: the same seed selects the same programs.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
}

/// Runs the trial. Returns false if anything differs.
///
/// # Errors
/// Returns an error if the module or the index cannot be made or read.
pub fn run(options: &Options) -> Result<bool> {
    if !options.sysroot.is_empty() {
        let mut clean = true;
        for root in &options.sysroot {
            clean &= run_root(root).with_context(|| root.display().to_string())?;
        }
        return Ok(clean);
    }
    let scratch = open_folder()?;
    let module = make::module(&make::compiler(std::env::consts::ARCH), scratch.path())?;
    let files = files(&options.store, &module, None)?;
    let mut trials = choose::trials(&options.store, options.programs, options.seed)?;
    if options.sbin {
        trials.extend(choose::all(Path::new("/usr/sbin"), "sbin"));
    }
    Ok(compare(&files, &trials))
}

/// Tries the programs of one root. Returns true if nothing differs.
fn run_root(root: &Path) -> Result<bool> {
    let scratch = open_folder()?;
    let store = scratch.path().join("store");
    let made = sysroot::make(root, &store)?;
    let module = make::module(&make::compiler(&made.machine), scratch.path())?;
    let files = files(&[store], &module, made.emulator)?;
    let group = root.file_name().unwrap_or_default().to_string_lossy();
    let trials: Vec<Trial> =
        made.programs.iter().flat_map(|program| choose::both(&group, program)).collect();
    Ok(compare(&files, &trials))
}

/// Makes the index of stores beside a module.
fn files(stores: &[PathBuf], module: &Path, emulator: Option<PathBuf>) -> Result<Files> {
    let index = module.with_file_name("index.so");
    let indexed = make::index(stores, &[], module, &index)?;
    indexed.errors.iter().for_each(|error| println!("{error}"));
    Ok(Files { bare: bare(&index)?, index, emulator })
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
fn compare(files: &Files, trials: &[Trial]) -> bool {
    let verdicts = verdicts(trials, |trial| same::compare(files, trial));
    let mut answers = 0;
    let named = |(trial, verdict): (&Trial, Result<(Tried, usize)>)| {
        answers += verdict.as_ref().map_or(0, |(_, answered)| *answered);
        (trial.group.clone(), trial.line(), verdict.map(|(tried, _)| tried))
    };
    let (_, clean) = tried::print(trials.iter().zip(verdicts).map(named));
    println!("{answers} questions answered, in one start of each");
    clean
}
