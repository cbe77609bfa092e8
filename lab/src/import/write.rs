//! Writes a planned store to the disk, each object atomically.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rayon::prelude::*;

use super::layout::{Layout, Placed};
use super::manifest::{Manifest, fingerprint};
use crate::patchelf::Patchelf;

/// Writes every object that is not in the store as planned, and returns the written ones.
///
/// # Errors
/// Returns the error of the first object that could not be written.
pub(crate) fn all<'l>(
    layout: &'l Layout,
    patchelf: &Patchelf,
    before: Option<&Manifest>,
) -> Result<Vec<&'l Placed>> {
    for (link, target) in &layout.data {
        if link.read_link().is_ok_and(|now| now == *target) {
            continue;
        }
        let dir = link.parent().context("a link without a directory")?;
        fs::create_dir_all(dir)?;
        let scratch = tempfile::Builder::new().prefix(".import-").tempdir_in(dir)?;
        set_link(link, target, scratch.path())?;
    }
    let stale: Vec<&Placed> = layout
        .objects
        .iter()
        .filter(|placed| !before.is_some_and(|manifest| manifest.holds(placed, &patchelf.version)))
        .collect();
    stale
        .into_par_iter()
        .map(|placed| {
            one(placed, layout.rpath, patchelf)
                .with_context(|| format!("{}", placed.original.display()))
                .map(|()| placed)
        })
        .collect()
}

fn one(placed: &Placed, rpath: bool, patchelf: &Patchelf) -> Result<()> {
    let dir = placed.path.parent().context("an object without a directory")?;
    fs::create_dir_all(dir)?;
    let scratch = tempfile::Builder::new().prefix(".import-").tempdir_in(dir)?;
    let draft = scratch.path().join(placed.path.file_name().unwrap_or_default());
    fs::copy(&placed.original, &draft)?;
    // patchelf must be able to write the file; everybody may read a store's files.
    let mode = fs::metadata(&placed.original)?.permissions().mode() & 0o111 | 0o644;
    fs::set_permissions(&draft, Permissions::from_mode(mode))?;
    if !placed.untouched {
        let run_path = joined(&placed.run_path);
        patchelf.set(&draft, &run_path, rpath, placed.interpreter.as_deref())?;
    }
    let (_, modified) = fingerprint(&placed.original)?;
    File::options().write(true).open(&draft)?.set_modified(modified)?;
    fs::rename(&draft, &placed.path)?;
    for link in &placed.links {
        let target = placed.path.file_name().unwrap_or_default();
        set_link(&dir.join(link), Path::new(target), scratch.path())?;
    }
    Ok(())
}

fn set_link(link: &Path, target: &Path, scratch: &Path) -> Result<()> {
    let draft = scratch.join(link.file_name().unwrap_or_default());
    symlink(target, &draft)?;
    fs::rename(&draft, link).with_context(|| format!("{}", link.display()))
}

/// Returns a run path as one string.
pub(crate) fn joined(dirs: &[PathBuf]) -> String {
    dirs.iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>().join(":")
}
