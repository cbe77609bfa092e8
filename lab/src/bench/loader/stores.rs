//! Copies of a store, with another C library and with carriers.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::worker::Worker;
use crate::child;

/// Copies a store, and puts the libraries of a folder in the place of its C library's.
///
/// # Errors
/// A file that cannot be copied.
pub(super) fn copy(store: &Path, copy: &Path, libraries: Option<&Path>) -> Result<()> {
    let mut command = child::command("cp");
    command.args(["-a", "--reflink=auto"]).arg(store).arg(copy);
    child::succeed(command)?;
    let Some(libraries) = libraries else { return Ok(()) };
    let mut filled = 0;
    for package in packages(copy)? {
        if package.file_name().is_some_and(|name| name.to_string_lossy().contains("-libc6-")) {
            filled += fill(&package.join("lib"), libraries)?;
        }
    }
    ensure!(filled > 1, "{}: nothing to put into the store", libraries.display());
    Ok(())
}

/// How many files of `lib` there were in `libraries` as well, and are now theirs.
fn fill(lib: &Path, libraries: &Path) -> Result<usize> {
    let mut filled = 0;
    for file in packages(lib)? {
        let built = libraries.join(file.file_name().context("a file without a name")?);
        if built.exists() {
            fs::remove_file(&file)?;
            fs::copy(&built, &file).with_context(|| built.display().to_string())?;
            filled += 1;
        }
    }
    Ok(filled)
}

/// What lies in a folder, sorted.
fn packages(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry?.path());
    }
    paths.sort();
    Ok(paths)
}

/// Has becalm write a carrier into the whole store that a worker sees.
///
/// # Errors
/// becalm fails.
pub(super) fn fix(worker: &mut Worker, becalm: &Path, carrier: &str, store: &Path) -> Result<()> {
    let becalm = becalm.canonicalize().with_context(|| becalm.display().to_string())?;
    let words: [&OsStr; 8] = [
        becalm.as_os_str(),
        "fix".as_ref(),
        "--with".as_ref(),
        carrier.as_ref(),
        "--no-sync".as_ref(),
        "--store".as_ref(),
        store.as_os_str(),
        store.as_os_str(),
    ];
    let status = worker.start(&words)?.status;
    ensure!(status == 0, "becalm fix --with {carrier}: status {status}");
    Ok(())
}

/// The program of this name in a store.
///
/// # Errors
/// There is none.
pub(super) fn program(store: &Path, name: &str) -> Result<PathBuf> {
    let mut programs = packages(store)?.into_iter().map(|package| package.join("bin").join(name));
    programs
        .find(|program| program.is_file())
        .with_context(|| format!("{name}: not in {}", store.display()))
}
