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

use std::path::Path;

use anyhow::{Context, Result, bail};
use rayon::prelude::*;

use crate::dpkg;
use crate::patchelf::Patchelf;
use crate::programs::{self, Program};
use crate::words::naming;
use manifest::{Manifest, Object};

/// Imports the programs `words` (see [`programs::find`]; all eight if empty) into the store at `store`, and
/// writes its manifest.
///
/// Objects of an earlier import that are still valid are kept and not written again. With `rpath`,
/// run paths are `DT_RPATH` and the C library stays on the system.
///
/// # Errors
/// Returns an error if a program is missing, patchelf or the loader rejects an object, or the
/// result loads other objects than the originals.
pub(crate) fn run(store: &Path, words: &[String], rpath: bool) -> Result<()> {
    std::fs::create_dir_all(store).with_context(naming(store))?;
    let store = store.canonicalize()?;
    let patchelf = Patchelf::find()?;
    let before = Manifest::read(&store)?;
    if before.as_ref().is_some_and(|manifest| manifest.rpath != rpath) {
        bail!("{}: made {} --rpath", store.display(), if rpath { "without" } else { "with" });
    }
    let programs = wanted(before.as_ref(), words)?;
    eprintln!("lab: {} programs", programs.len());
    let graph = graph::build(&programs)?;
    let owners = dpkg::owners(graph.1.keys())?;
    let manifest = layout::plan(&store, &graph, &programs, &owners, rpath)?;
    let written = write::all(&manifest, &patchelf, before.as_ref())?;
    eprintln!("lab: {} objects, {} written", manifest.objects.len(), written.len());
    let results: Vec<Vec<String>> =
        written.par_iter().map(|object| verify::object(&manifest, object)).collect();
    conclude(&store, written.into_iter().zip(results).collect())?;
    manifest.write(&patchelf.version)
}

/// Returns the programs of the store: those that it has and that are still on this machine, and the
/// requested ones.
fn wanted(before: Option<&Manifest>, words: &[String]) -> Result<Vec<Program>> {
    let mut programs: Vec<Program> = if words.is_empty() {
        programs::names().map(programs::find).collect::<Result<_>>()?
    } else {
        words.iter().map(|word| programs::find(word)).collect::<Result<_>>()?
    };
    for program in before.iter().flat_map(|manifest| &manifest.programs) {
        if program.original.exists() {
            programs.push((program.name.clone(), program.original.clone()));
        }
    }
    programs.sort();
    programs.dedup();
    Ok(programs)
}

/// Prints the result of the verification. An object that failed is removed, so that no later import
/// keeps it.
fn conclude(store: &Path, results: Vec<(&Object, Vec<String>)>) -> Result<()> {
    let failed: Vec<_> = results.iter().filter(|(_, failures)| !failures.is_empty()).collect();
    for (object, failures) in &failed {
        for failure in failures {
            eprintln!("lab: {failure}");
        }
        std::fs::remove_file(&object.path).with_context(naming(&object.path))?;
    }
    if !failed.is_empty() {
        bail!("{} objects of {} failed and were removed", failed.len(), store.display());
    }
    eprintln!("lab: {} objects verified with the real loader", results.len());
    Ok(())
}
