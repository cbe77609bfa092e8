//! Checks a store with the real loader: some errors in a rewritten object only appear when it is
//! loaded.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::graph::Kind;
use super::manifest::{Manifest, Object};
use super::write::joined;
use crate::child::{self, Finished};
use crate::elf::Dynamic;
use crate::loader::{self, Listed};

/// Returns all errors of an object of the store, one per line. A correct object is as planned,
/// loads exactly the store's objects and, if it is a program, prints the same version as the
/// original.
pub(crate) fn object(manifest: &Manifest, object: &Object) -> Vec<String> {
    let mut checks = vec![strings(manifest, object)];
    match object.kind {
        Kind::Program => {
            checks
                .push(loader::trace(&object.path).and_then(|list| closed(manifest, object, &list)));
            checks.push(same_version(object));
        }
        Kind::Library => {
            let list = loader::list(&manifest.loader, &object.path);
            checks.push(list.and_then(|list| closed(manifest, object, &list)));
        }
        // Every other check runs it.
        Kind::Loader => {}
    }
    let wrong = checks.into_iter().filter_map(Result::err);
    wrong.map(|error| format!("{}: {error:#}", object.path.display())).collect()
}

/// Checks that the dynamic section is the planned one and has nothing of the old one.
fn strings(manifest: &Manifest, object: &Object) -> Result<()> {
    let now = Dynamic::read(&object.path)?;
    let before = Dynamic::read(&object.original)?;
    if now.needed != before.needed || now.soname != before.soname {
        bail!("needed strings or soname changed");
    }
    if object.untouched {
        return Ok(());
    }
    let (run_path, other) =
        if manifest.rpath { (now.rpath, now.runpath) } else { (now.runpath, now.rpath) };
    if other.is_some() {
        bail!("has a run path of the other kind");
    }
    let run_path = run_path.unwrap_or_default();
    if run_path != joined(&object.run_path) {
        bail!("run path is {run_path}");
    }
    if let Some(expected) = &object.interpreter
        && now.interpreter.as_deref().map(Path::new) != Some(expected)
    {
        bail!("interpreter is {:?}", now.interpreter);
    }
    Ok(())
}

/// Checks that the loader lists exactly the planned objects, so none outside the store.
fn closed(manifest: &Manifest, object: &Object, list: &[Listed]) -> Result<()> {
    let mut expected = expected(manifest, object)?;
    for (needed, path) in list {
        let Some(path) = path else { bail!("{needed} is not found") };
        let real = path.canonicalize().with_context(|| format!("{}", path.display()))?;
        if !real.starts_with(&manifest.store) && !manifest.is_of_system(&real) {
            bail!("{needed} comes from {}, outside the store", path.display());
        }
        if expected.remove(&real).is_none() && real != manifest.loader {
            bail!("{needed} comes from {}, which is not as planned", path.display());
        }
    }
    expected.remove(&manifest.loader);
    if let Some((path, needed)) = expected.first_key_value() {
        bail!("{needed} should have come from {}", path.display());
    }
    Ok(())
}

/// Returns the planned closure of one object without itself, as a map from file to needed string.
fn expected(manifest: &Manifest, root: &Object) -> Result<BTreeMap<PathBuf, String>> {
    let mut found: BTreeMap<PathBuf, String> = BTreeMap::new();
    let mut open = vec![root];
    while let Some(object) = open.pop() {
        for (needed, file) in &object.needs {
            if *file == root.path || found.contains_key(file) {
                continue;
            }
            found.insert(file.clone(), needed.clone());
            if manifest.is_of_system(file) {
                continue;
            }
            open.push(manifest.object(file).context("a need outside the plan")?);
        }
    }
    Ok(found)
}

/// Checks that the copy prints the same version as the original. A program that prints none here
/// (it needs a display, for example) is not compared. Standard error may have times or process ids,
/// so it is ignored.
fn same_version(object: &Object) -> Result<()> {
    let theirs = version(&object.original)?;
    if !theirs.status.success() {
        return Ok(());
    }
    let ours = version(&object.path)?;
    let plain = |run: &Finished, path: &Path| {
        (run.status, run.stdout.replace(&path.display().to_string(), "PROGRAM"))
    };
    let (ours, theirs) = (plain(&ours, &object.path), plain(&theirs, &object.original));
    if ours != theirs {
        bail!("--version gives {ours:?}, the original {theirs:?}");
    }
    Ok(())
}

fn version(program: &Path) -> Result<Finished> {
    child::finish(child::command(program).arg("--version"))
}
