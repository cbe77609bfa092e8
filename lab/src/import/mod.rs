//! `lab import`: creates a store from this machine's programs, with the layout of Nix.
//!
//! [`graph`] runs the real loader for each program, [`layout`] plans the place and the run path of
//! every object, [`write`] copies and patches them, [`verify`] checks the result with the real
//! loader, and [`manifest`] records it.

pub(crate) mod graph;
pub(crate) mod layout;
pub(crate) mod manifest;
pub(crate) mod verify;
pub(crate) mod write;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rayon::prelude::*;

use crate::dpkg;
use crate::patchelf::Patchelf;
use crate::programs::{self, Program};
use graph::Graph;
use layout::{Layout, Placed};
use manifest::Manifest;

/// Imports the programs `words` (see [`programs::find`]; all eight if empty) and the additional
/// objects `with` into the store at `store`, and writes its manifest.
///
/// Objects of an earlier import that are still valid are kept and not written again. With `rpath`,
/// run paths are `DT_RPATH` and the C library stays on the system. With `verify_all`, existing
/// objects are verified as well.
///
/// # Errors
/// Returns an error if a program is missing, patchelf or the loader rejects an object, or the
/// result loads other objects than the originals.
pub(crate) fn run(
    store: &Path,
    words: &[String],
    with: &[PathBuf],
    rpath: bool,
    verify_all: bool,
) -> Result<()> {
    std::fs::create_dir_all(store).with_context(|| format!("{}", store.display()))?;
    let store = store.canonicalize()?;
    let patchelf = Patchelf::find()?;
    let before = Manifest::read(&store)?;
    if before.as_ref().is_some_and(|manifest| manifest.rpath != rpath) {
        bail!("{}: made {} --rpath", store.display(), if rpath { "without" } else { "with" });
    }

    let (programs, extras) = wanted(before.as_ref(), words, with)?;
    eprintln!("lab: {} programs, {} more objects", programs.len(), extras.len());
    let graph = Graph::build(&programs, &extras)?;
    let owners = dpkg::owners(&graph.paths())?;
    let layout = Layout::plan(&store, &graph, &owners, rpath)?;

    let written = write::all(&layout, &patchelf, before.as_ref())?;
    let fresh: BTreeSet<&Path> = written.iter().map(|placed| placed.path.as_path()).collect();
    eprintln!("lab: {} objects, {} written", layout.objects.len(), fresh.len());
    let doubtful: Vec<&Placed> = layout
        .objects
        .iter()
        .filter(|placed| verify_all || fresh.contains(placed.path.as_path()))
        .collect();
    let results: Vec<Vec<String>> =
        doubtful.par_iter().map(|placed| verify::object(&layout, placed)).collect();
    conclude(&store, doubtful.into_iter().zip(results).collect())?;
    Manifest::of(layout, &patchelf)?.write(&store)
}

/// Returns the programs and objects of the store: those that it has and that are still on this
/// machine, and the requested ones.
fn wanted(
    before: Option<&Manifest>,
    words: &[String],
    with: &[PathBuf],
) -> Result<(Vec<Program>, Vec<PathBuf>)> {
    let all_eight = words.is_empty() && with.is_empty();
    let mut programs: Vec<Program> = if all_eight {
        programs::names().map(programs::find).collect::<Result<_>>()?
    } else {
        words.iter().map(|word| programs::find(word)).collect::<Result<_>>()?
    };
    let mut extras: Vec<PathBuf> = with
        .iter()
        .map(|path| path.canonicalize().with_context(|| format!("{}", path.display())))
        .collect::<Result<_>>()?;
    for program in before.iter().flat_map(|manifest| &manifest.programs) {
        if program.original.exists() {
            programs.push(Program { name: program.name.clone(), path: program.original.clone() });
        }
    }
    for extra in before.iter().flat_map(|manifest| &manifest.extras) {
        if extra.exists() {
            extras.push(extra.clone());
        }
    }
    programs.sort_by(|a, b| (&a.name, &a.path).cmp(&(&b.name, &b.path)));
    programs.dedup();
    extras.sort();
    extras.dedup();
    Ok((programs, extras))
}

/// Prints the result of the verification. An object that failed is removed, so that no later import
/// keeps it.
fn conclude(store: &Path, results: Vec<(&Placed, Vec<String>)>) -> Result<()> {
    let failed: Vec<_> = results.iter().filter(|(_, failures)| !failures.is_empty()).collect();
    for (placed, failures) in &failed {
        for failure in failures {
            eprintln!("lab: {failure}");
        }
        std::fs::remove_file(&placed.path).with_context(|| format!("{}", placed.path.display()))?;
    }
    if !failed.is_empty() {
        bail!("{} objects of {} failed and were removed", failed.len(), store.display());
    }
    eprintln!("lab: {} objects verified with the real loader", results.len());
    Ok(())
}
