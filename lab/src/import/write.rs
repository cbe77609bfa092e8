//! Writes a planned store to the disk, each object atomically.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rayon::prelude::*;

use super::manifest::{Manifest, Object, fingerprint};
use crate::child;
use crate::patchelf::Patchelf;

/// Writes every object that is not in the store as planned, and returns the written ones.
///
/// # Errors
/// Returns the error of the first object that could not be written.
pub(crate) fn all<'l>(
    manifest: &'l Manifest,
    patchelf: &Patchelf,
    before: Option<&Manifest>,
) -> Result<Vec<&'l Object>> {
    for (link, target) in &manifest.data {
        if link.read_link().is_ok_and(|now| now == *target) {
            continue;
        }
        let dir = link.parent().context("a link without a directory")?;
        fs::create_dir_all(dir)?;
        let scratch = tempfile::Builder::new().prefix(".import-").tempdir_in(dir)?;
        set_link(link, target, scratch.path())?;
    }
    let stale: Vec<&Object> = manifest
        .objects
        .iter()
        .filter(|object| !before.is_some_and(|old| old.holds(object, &patchelf.version)))
        .collect();
    stale
        .into_par_iter()
        .map(|object| {
            one(object, manifest.rpath, patchelf)
                .with_context(|| format!("{}", object.original.display()))
                .map(|()| object)
        })
        .collect()
}

fn one(object: &Object, rpath: bool, patchelf: &Patchelf) -> Result<()> {
    let dir = object.path.parent().context("an object without a directory")?;
    fs::create_dir_all(dir)?;
    let scratch = tempfile::Builder::new().prefix(".import-").tempdir_in(dir)?;
    let draft = scratch.path().join(object.path.file_name().unwrap_or_default());
    fs::copy(&object.original, &draft)?;
    // patchelf must be able to write the file; everybody may read a store's files.
    let mode = fs::metadata(&object.original)?.permissions().mode() & 0o111 | 0o644;
    fs::set_permissions(&draft, Permissions::from_mode(mode))?;
    if !object.untouched {
        let mut command = child::command(&patchelf.program);
        // The run path becomes a `DT_RUNPATH` or a `DT_RPATH`, whatever it was before.
        match joined(&object.run_path).as_str() {
            "" => command.arg("--remove-rpath"),
            path => command.args(rpath.then_some("--force-rpath")).args(["--set-rpath", path]),
        };
        let interpreter = object.interpreter.iter();
        command.args(interpreter.flat_map(|it| [Path::new("--set-interpreter"), it]));
        child::succeed(command.arg(&draft))?;
    }
    let (_, modified) = fingerprint(&object.original)?;
    File::options().write(true).open(&draft)?.set_modified(modified)?;
    fs::rename(&draft, &object.path)?;
    for link in &object.links {
        let target = object.path.file_name().unwrap_or_default();
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
