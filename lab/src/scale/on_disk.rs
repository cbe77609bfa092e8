//! `lab scale --on-disk`: `becalm index` and `becalm index --update` on a store of real files.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use bstr::ByteSlice;
use nix::sys::resource::{UsageWho, getrusage};

use super::deep::{self, Shape};
use crate::survey;
use crate::words::grouped;

/// Makes a store of each size, indexes it, adds a package and updates the index.
pub(super) fn run(packages: &[usize], shape: Shape, folder: &Path, becalm: &Path) -> Result<()> {
    println!(
        "| packages | files | index, s | peak, MB | index, MB | update, nothing new, s | update, a package more, s |"
    );
    println!("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for &packages in packages {
        let folder = folder.join(packages.to_string());
        let (files, more, store) = match shape {
            Shape::Flat => {
                let files = packages * survey::OF_A_PACKAGE;
                (files, survey::OF_A_PACKAGE, survey::make(&folder, files)?)
            }
            _ => (shape.objects(packages), 1, deep::make(&folder, shape, packages)?),
        };
        let added = store.join("added");
        if added.exists() {
            fs::remove_dir_all(&added)?;
        }
        let index = store.with_file_name("index.so");
        let timed = |what: &[&str]| timed(becalm, &index, what);
        let text = store.to_str().context("a folder whose name is no text")?;
        let made = timed(&[text, "--store", text])?;
        // The first update also reads files that had changed just before the index was made.
        timed(&["--update"])?;
        let again = timed(&["--update"])?;
        ensure!(again.said.contains("up to date"), "{}", again.said);
        copy(&store.join("p0/bin"), &added.join("bin"))?;
        let updated = timed(&["--update"])?;
        let all = format!("{} for", grouped(files + more));
        ensure!(updated.said.contains(&all), "not {all}: {}", updated.said);
        println!(
            "| {packages} | {files} | {:.1} | {} | {:.1} | {:.2} | {:.2} |",
            made.seconds,
            made.peak / 1000,
            fs::metadata(&index)?.len() as f64 / 1e6,
            again.seconds,
            updated.seconds,
        );
    }
    Ok(())
}

/// A run of becalm.
struct Timed {
    seconds: f64,
    /// Peak of its resident memory, in kB.
    peak: u64,
    said: String,
}

fn timed(becalm: &Path, index: &Path, arguments: &[&str]) -> Result<Timed> {
    let began = Instant::now();
    let mut child = Command::new(becalm);
    child.arg("index").args(arguments).arg("-o").arg(index).stdout(Stdio::piped());
    let output = child.output().with_context(|| becalm.display().to_string())?;
    let seconds = began.elapsed().as_secs_f64();
    let said = output.stdout.to_str_lossy().into_owned();
    if !output.status.success() {
        bail!("{}: {}", becalm.display(), output.status);
    }
    // The value is the largest of all children so far, so sizes are measured in ascending order.
    let peak = getrusage(UsageWho::RUSAGE_CHILDREN)?.max_rss().unsigned_abs();
    Ok(Timed { seconds, peak, said })
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}
