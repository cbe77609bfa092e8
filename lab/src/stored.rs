//! The programs of a store, and the C library of a copy.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// Finds the program of this name in a store, with links resolved. Returns `None` if no package has
/// it.
///
/// # Errors
/// Returns an error if the store cannot be read.
pub(crate) fn find(store: &Path, name: &str) -> Result<Option<PathBuf>> {
    for package in entries(store)? {
        let program = package.join("bin").join(name);
        if program.is_file() {
            return Ok(Some(program.canonicalize()?));
        }
    }
    Ok(None)
}

/// Does the same as [`find`].
///
/// # Errors
/// Returns the errors of [`find`], and an error if no package has the program.
pub(crate) fn program(store: &Path, name: &str) -> Result<PathBuf> {
    find(store, name)?.with_context(|| format!("{}: no {name} in this store", store.display()))
}

/// Replaces the files of the store's C library with those that `folders` have from another build of
/// the same release.
///
/// # Errors
/// Returns an error if the folders have none of them, or a file cannot be copied.
pub(crate) fn set_libc(store: &Path, folders: &[PathBuf]) -> Result<()> {
    let mut filled = 0;
    for package in entries(store)? {
        let lib = package.join("lib");
        if !lib.join("libc.so.6").exists() {
            continue;
        }
        for file in entries(&lib)? {
            let name = file.file_name().context("a file without a name")?;
            let built = folders.iter().map(|folder| folder.join(name)).find(|it| it.is_file());
            let Some(built) = built else { continue };
            fs::remove_file(&file)?;
            fs::copy(&built, &file).with_context(|| built.display().to_string())?;
            filled += 1;
        }
    }
    // The loader and libc.so.6 must be of one build, so a single match is not enough.
    ensure!(filled > 1, "{folders:?}: no C library for {}", store.display());
    Ok(())
}

/// Returns the entries of a folder, sorted.
pub(crate) fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}
