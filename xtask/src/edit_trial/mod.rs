//! Tries `becalm-rewrite` on many real files: every kind of edit on a copy of each ELF file of this
//! machine, of lab stores and of foreign roots, compared with the original.
//!
//! [`files`] finds the files, [`kinds`] has the edits, [`check`] compares the bytes with the
//! original, [`tools`] runs `readelf`, the loader, `strip` and others, [`debugger`] runs `gdb`,
//! [`run`] starts whole programs, and [`tally`] counts and prints.

mod check;
mod debugger;
mod files;
mod kind;
mod kinds;
mod run;
mod tally;
mod tools;

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use crate::differential::verdicts;
use crate::order_trial::step::bundle;
use files::File;
use tally::Tally;

/// Options of the trial.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Every ELF file under /usr.
    #[arg(long)]
    usr: bool,
    /// Every ELF file of a lab store.
    #[arg(long, value_name = "DIR")]
    store: Vec<PathBuf>,
    /// Every ELF file of the foreign roots in a folder, loaded by the emulator if there is one.
    #[arg(long, value_name = "DIR")]
    sysroots: Vec<PathBuf>,
    /// Edit a copy of the files that this patchelf has bundled, as a wheel or a conda package has them.
    #[arg(long, value_name = "FILE")]
    patchelf: Option<PathBuf>,
    /// Use only N files, spread evenly.
    #[arg(long, value_name = "N")]
    sample: Option<usize>,
    /// Run the slow tools (strip, objcopy, eu-elflint, gdb, all of readelf, …) on every Kth file; 0
    /// for none.
    #[arg(long, value_name = "K", default_value_t = 10)]
    tools_every: usize,
    /// Only edits, states and undoing: run no other program.
    #[arg(long)]
    bytes_only: bool,
    /// Also start N programs of /usr/bin from edited copies.
    #[arg(long, value_name = "N", default_value_t = 0)]
    programs: usize,
    /// Number of files at a time.
    #[arg(long, value_name = "N", default_value_t = 2)]
    threads: usize,
    /// Number of failures to print.
    #[arg(long, value_name = "K", default_value_t = 60)]
    show: usize,
}

/// Edits, checks and prints. Returns false if anything failed.
///
/// # Errors
/// Returns an error if a folder cannot be read or the scratch folder cannot be created.
pub fn run(options: &Options) -> Result<bool> {
    let scratch = tempfile::Builder::new().prefix("edit-trial").tempdir()?;
    let files = files::find(options)?;
    println!("{} files", files.len());
    if !options.bytes_only {
        report_absent()?;
    }
    let numbered: Vec<(usize, &File)> = files.iter().enumerate().collect();
    let tallies = verdicts(options.threads, &numbered, |&(index, file)| {
        let dir = scratch.path().join(index.to_string());
        let mut mine = Tally::default();
        if let Err(error) = one(options, index, file, &dir, &mut mine) {
            mine.failure(file, "-", "harness", &format!("{error:#}"));
        }
        // The scratch folder is removed at the end, so a failure here does not matter.
        let _ = std::fs::remove_dir_all(&dir);
        mine
    })?;
    let mut tally = Tally::default();
    tallies.into_iter().for_each(|mine| tally.add(mine));
    if options.programs > 0 {
        run::programs(options.programs, scratch.path(), &mut tally)?;
    }
    tally.print(options.show);
    Ok(tally.failures() == 0)
}

/// Prints which tools are not installed. Fails if `BECALM_REQUIRE_ALL` is 1.
fn report_absent() -> Result<()> {
    let absent = tools::absent();
    let required = std::env::var_os("BECALM_REQUIRE_ALL").is_some_and(|it| it == "1");
    ensure!(absent.is_empty() || !required, "not installed: {}", absent.join(", "));
    absent.iter().for_each(|tool| println!("not installed, not run: {tool}"));
    Ok(())
}

/// Tries every kind of edit on one file.
fn one(options: &Options, index: usize, file: &File, dir: &Path, tally: &mut Tally) -> Result<()> {
    let mut original = std::fs::read(&file.path)?;
    if let Some(patchelf) = &options.patchelf {
        std::fs::create_dir_all(dir)?;
        let copy = dir.join("bundled");
        std::fs::write(&copy, &original)?;
        if !bundle(patchelf, &copy)? {
            tally.tried(file, "patchelf");
            tally.refused(file, "patchelf", "patchelf refuses it");
            return Ok(());
        }
        original = std::fs::read(&copy)?;
    }
    let slow = options.tools_every > 0 && index.is_multiple_of(options.tools_every);
    let mut bench = match options.bytes_only {
        true => None,
        false => Some(tools::Bench::new(file, &original, dir, slow)?),
    };
    for kind in kinds::of(&original, bench.as_ref()) {
        tally.tried(file, kind.name);
        let done = match check::edited(&original, &kind) {
            Ok(Some(done)) => done,
            Ok(None) => {
                tally.nothing(file, kind.name);
                continue;
            }
            Err(check::Failure::Refused(reason)) => {
                tally.refused(file, kind.name, &reason);
                continue;
            }
            Err(check::Failure::Wrong(rule, what)) => {
                tally.failure(file, kind.name, rule, &what);
                continue;
            }
        };
        tally.added(file, kind.name, done.image.len() - original.len(), done.table_moved);
        if let Some(bench) = &mut bench {
            for (rule, what) in bench.complaints(&done, &kind)? {
                tally.failure(file, kind.name, rule, &what);
            }
        }
    }
    if let Some(bench) = bench {
        tally.runs(bench.runs);
    }
    Ok(())
}
