//! `lab scale`: `becalm index` and `becalm index --update` on stores of real files of growing size, up to a
//! million.

#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use nix::sys::resource::{UsageWho, getrusage};

use crate::words::grouped;
use crate::{child, survey};

/// The sizes of the store.
#[derive(Args)]
pub(crate) struct Scale {
    /// Packages of the stores
    #[arg(default_values_t = [1000, 10_000, 100_000])]
    packages: Vec<usize>,
    /// Make the stores below this folder
    #[arg(long, value_name = "FOLDER")]
    on_disk: PathBuf,
    /// The becalm that indexes them, as scripts/build prints it
    #[arg(long, value_name = "FILE")]
    becalm: PathBuf,
}

/// Makes a store of each size, indexes it, adds a package and updates the index.
pub(crate) fn run(args: &Scale) -> Result<()> {
    let Scale { packages, on_disk: folder, becalm } = args;
    println!(
        "| packages | files | index, s | peak, MB | index, MB | update, nothing new, s | update, a package more, s |"
    );
    println!("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for &packages in packages {
        let folder = folder.join(packages.to_string());
        let files = packages * survey::OF_A_PACKAGE;
        let store = survey::make(&folder, files)?;
        let added = store.join("added");
        if added.exists() {
            fs::remove_dir_all(&added)?;
        }
        let index = store.with_file_name("index.so");
        let timed = |what: &[&str]| timed(becalm, &index, what);
        let text = store.to_str().context("a folder whose name is no text")?;
        let (seconds, peak, _) = timed(&[text, "--store", text])?;
        // The first update also reads files that had changed just before the index was made.
        timed(&["--update"])?;
        let (again, _, said) = timed(&["--update"])?;
        ensure!(said.contains("up to date"), "{said}");
        fs::create_dir(&added)?;
        child::succeed(Command::new("cp").arg("-r").args([&store.join("p0/bin"), &added]))?;
        let (updated, _, said) = timed(&["--update"])?;
        let all = format!("{} for", grouped(files + survey::OF_A_PACKAGE));
        ensure!(said.contains(&all), "not {all}: {said}");
        println!(
            "| {packages} | {files} | {seconds:.1} | {} | {:.1} | {again:.2} | {updated:.2} |",
            peak / 1000,
            fs::metadata(&index)?.len() as f64 / 1e6,
        );
    }
    Ok(())
}

/// Returns the seconds of a run of becalm, the peak of its resident memory in kB, and its output.
fn timed(becalm: &Path, index: &Path, arguments: &[&str]) -> Result<(f64, u64, String)> {
    let began = Instant::now();
    let mut command = Command::new(becalm);
    let said = child::whole(command.arg("index").args(arguments).arg("-o").arg(index))?;
    let seconds = began.elapsed().as_secs_f64();
    // The value is the largest of all children so far, so sizes are measured in ascending order.
    let peak = getrusage(UsageWho::RUSAGE_CHILDREN)?.max_rss().unsigned_abs();
    Ok((seconds, peak, said))
}
