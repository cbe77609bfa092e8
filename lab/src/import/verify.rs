//! Checks a store with the real loader: some errors in a rewritten object only appear when it is
//! loaded.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::graph::Kind;
use super::layout::{Layout, Placed};
use super::write::joined;
use crate::child::{self, Finished};
use crate::elf::Dynamic;
use crate::loader::{self, Listed};

/// Returns all errors of an object of the store, one per line. A correct object is as planned,
/// loads exactly the store's objects and, if it is a program, prints the same version as the
/// original.
pub(crate) fn object(layout: &Layout, placed: &Placed) -> Vec<String> {
    let mut checks = vec![strings(layout, placed)];
    match placed.kind {
        Kind::Program => {
            checks.push(loader::trace(&placed.path).and_then(|list| closed(layout, placed, &list)));
            checks.push(same_version(placed));
        }
        Kind::Library => {
            let list = loader::list(&layout.loader, &placed.path);
            checks.push(list.and_then(|list| closed(layout, placed, &list)));
        }
        // Every other check runs it.
        Kind::Loader => {}
    }
    let wrong = checks.into_iter().filter_map(Result::err);
    wrong.map(|error| format!("{}: {error:#}", placed.path.display())).collect()
}

/// Checks that the dynamic section is the planned one and has nothing of the old one.
fn strings(layout: &Layout, placed: &Placed) -> Result<()> {
    let now = Dynamic::read(&placed.path)?;
    let before = Dynamic::read(&placed.original)?;
    if now.needed != before.needed || now.soname != before.soname {
        bail!("needed strings or soname changed");
    }
    if placed.untouched {
        return Ok(());
    }
    let (run_path, other) =
        if layout.rpath { (now.rpath, now.runpath) } else { (now.runpath, now.rpath) };
    if other.is_some() {
        bail!("has a run path of the other kind");
    }
    let run_path = run_path.unwrap_or_default();
    if run_path != joined(&placed.run_path) {
        bail!("run path is {run_path}");
    }
    if let Some(expected) = &placed.interpreter
        && now.interpreter.as_deref().map(Path::new) != Some(expected)
    {
        bail!("interpreter is {:?}", now.interpreter);
    }
    Ok(())
}

/// Checks that the loader lists exactly the planned objects, so none outside the store.
fn closed(layout: &Layout, placed: &Placed, list: &[Listed]) -> Result<()> {
    let mut expected = expected(layout, placed)?;
    for line in list {
        let Some(path) = &line.path else { bail!("{} is not found", line.needed) };
        let real = path.canonicalize().with_context(|| format!("{}", path.display()))?;
        if !real.starts_with(&layout.store) && !layout.is_of_system(&real) {
            bail!("{} comes from {}, outside the store", line.needed, path.display());
        }
        if expected.remove(&real).is_none() && real != layout.loader {
            bail!("{} comes from {}, which is not as planned", line.needed, path.display());
        }
    }
    expected.remove(&layout.loader);
    if let Some((path, needed)) = expected.first_key_value() {
        bail!("{needed} should have come from {}", path.display());
    }
    Ok(())
}

/// Returns the planned closure of one object without itself, as a map from file to needed string.
fn expected(layout: &Layout, root: &Placed) -> Result<BTreeMap<PathBuf, String>> {
    let mut found: BTreeMap<PathBuf, String> = BTreeMap::new();
    let mut open = vec![root];
    while let Some(placed) = open.pop() {
        for (needed, file) in &placed.needs {
            if *file == root.path || found.contains_key(file) {
                continue;
            }
            found.insert(file.clone(), needed.clone());
            if layout.is_of_system(file) {
                continue;
            }
            open.push(layout.object(file).context("a need outside the plan")?);
        }
    }
    Ok(found)
}

/// Checks that the copy prints the same version as the original. A program that prints none here
/// (it needs a display, for example) is not compared. Standard error may have times or process ids,
/// so it is ignored.
fn same_version(placed: &Placed) -> Result<()> {
    let theirs = version(&placed.original)?;
    if !theirs.status.success() {
        return Ok(());
    }
    let ours = version(&placed.path)?;
    let plain = |run: &Finished, path: &Path| {
        (run.status, run.stdout.replace(&path.display().to_string(), "PROGRAM"))
    };
    let (ours, theirs) = (plain(&ours, &placed.path), plain(&theirs, &placed.original));
    if ours != theirs {
        bail!("--version gives {ours:?}, the original {theirs:?}");
    }
    Ok(())
}

fn version(program: &Path) -> Result<Finished> {
    child::finish(child::command(program).arg("--version"))
}
