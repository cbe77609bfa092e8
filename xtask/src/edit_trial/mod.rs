//! Tries `becalm-rewrite` on many real files: every kind of edit on a copy of each ELF file of this
//! machine and of lab stores, compared with the original.
//!
//! [`files`] finds the files, [`kind`] has the edits, [`check`] compares the bytes with the
//! original, [`tools`] runs `readelf`, the loader, `strip` and others, [`debugger`] runs `gdb`,
//! and [`tally`] counts and prints.

mod check;
mod debugger;
mod files;
mod kind;
mod tally;
mod tools;

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use crate::differential::verdicts;
use crate::order_trial::step::{self, BUNDLE};
use files::File;
use tally::{Event, What, failed};

/// Options of the trial.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Every ELF file under /usr.
    #[arg(long)]
    usr: bool,
    /// Every ELF file of a lab store.
    #[arg(long, value_name = "DIR")]
    store: Vec<PathBuf>,
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
}

/// Edits, checks and prints. Returns false if anything failed.
///
/// # Errors
/// Returns an error if the scratch folder cannot be created.
pub fn run(options: &Options) -> Result<bool> {
    let scratch = tempfile::Builder::new().prefix("edit-trial").tempdir()?;
    let files = files::find(options);
    println!("{} files", files.len());
    report_absent()?;
    let numbered: Vec<(usize, &File)> = files.iter().enumerate().collect();
    let events = verdicts(&numbered, |&(index, file)| {
        let dir = scratch.path().join(index.to_string());
        let mut events = Vec::new();
        if let Err(error) = one(options, index, file, &dir, &mut events) {
            events.push(("-", failed("harness", &format!("{error:#}"))));
        }
        // The scratch folder is removed at the end, so a failure here does not matter.
        let _ = std::fs::remove_dir_all(&dir);
        events.into_iter().map(|(kind, what)| event(file, kind, what)).collect::<Vec<_>>()
    });
    Ok(tally::print(&events.into_iter().flatten().collect::<Vec<_>>()))
}

/// Returns an event of a file, which a failure names on its second line.
fn event(file: &File, kind: &'static str, (column, mut text): What) -> Event {
    if column == "failed" {
        text = format!("{text}\n  {}", file.path.display());
    }
    Event { machine: file.machine.clone(), kind, what: (column, text) }
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
fn one(
    options: &Options,
    index: usize,
    file: &File,
    dir: &Path,
    events: &mut Vec<(&'static str, What)>,
) -> Result<()> {
    let mut original = std::fs::read(&file.path)?;
    if let Some(patchelf) = &options.patchelf {
        std::fs::create_dir_all(dir)?;
        let copy = dir.join("bundled");
        std::fs::write(&copy, &original)?;
        if !step::make(BUNDLE, &copy, &[("PATCHELF", patchelf.into())])? {
            let refused = ("refused", "patchelf refuses it".to_owned());
            events.extend([("patchelf", tried()), ("patchelf", refused)]);
            return Ok(());
        }
        original = std::fs::read(&copy)?;
    }
    let slow = options.tools_every > 0 && index.is_multiple_of(options.tools_every);
    let mut bench = tools::Bench::new(file, &original, dir, slow)?;
    for kind in kind::of(&original, &|name: &[u8]| bench.path_of(name)) {
        let mut add = |what| events.push((kind.name, what));
        add(tried());
        match check::edited(&original, &kind) {
            Ok(done) => {
                let column = if done.table_moved { "moved" } else { "in place" };
                add((column, (done.image.len() - original.len()).to_string()));
                let complaints = bench.complaints(&done, &kind)?.into_iter();
                complaints.for_each(|(rule, what)| add(failed(rule, &what)));
            }
            Err(what) => add(what),
        }
    }
    events.extend(bench.runs.into_iter().map(|tool| ("-", ("ran", tool.to_owned()))));
    Ok(())
}

fn tried() -> What {
    ("tried", String::new())
}
