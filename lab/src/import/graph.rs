//! Reads the closures of programs from the real loader's output.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::elf::Dynamic;
use crate::loader;
use crate::programs::Program;
use crate::words::naming;

/// Kind of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// A requested program.
    Program,
    /// A library of a closure.
    Library,
    /// The interpreter of the programs.
    Loader,
}

/// One object of this machine.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// Its kind.
    pub(crate) kind: Kind,
    /// Its dynamic section.
    pub(crate) dynamic: Dynamic,
    /// Each needed string, in order, and the real file that the loader found.
    pub(crate) needs: Vec<(String, PathBuf)>,
}

/// All objects of all programs, by real path.
pub(crate) type Sources = BTreeMap<PathBuf, Source>;

/// Runs the loader for every closure. Returns the real path of the interpreter of all programs, and the objects.
///
/// # Errors
/// Returns an error if a library is missing, an object cannot be read, or the programs have
/// different interpreters.
pub(crate) fn build(programs: &[Program]) -> Result<(PathBuf, Sources)> {
    let mut interpreters = BTreeMap::new();
    for (_, program) in programs {
        let interpreter = Dynamic::read(program)?.interpreter.context("no interpreter")?;
        let real = Path::new(&interpreter).canonicalize()?;
        interpreters.insert(real, (PathBuf::from(interpreter), program));
    }
    ensure!(
        interpreters.len() < 2,
        "these programs name different interpreters; give each a store of its own: {:?}",
        interpreters.values()
    );
    let first = interpreters.into_iter().next().context("no programs")?;
    let (loader, (interpreter, _)) = first;
    let mut sources = Sources::new();
    for (_, program) in programs {
        add(&mut sources, &interpreter, &loader, program)?;
    }
    Ok((loader, sources))
}

/// Adds a program and its closure.
fn add(sources: &mut Sources, interpreter: &Path, loader: &Path, root: &Path) -> Result<()> {
    let unnamed = |path: &Path| (String::new(), Some(path.to_owned()));
    let mut listed = vec![unnamed(root)];
    listed.extend(loader::list(interpreter, root)?);
    // The loader lists itself only if an object needs it.
    listed.push(unnamed(interpreter));
    let mut found: BTreeMap<PathBuf, Dynamic> = BTreeMap::new();
    let mut by_name: HashMap<String, PathBuf> = HashMap::new();
    for (needed, path) in listed {
        let missing = || format!("{}: {needed} is not on this machine", root.display());
        let path = path.with_context(missing)?;
        let path = path.canonicalize().with_context(naming(&path))?;
        by_name.entry(needed).or_insert_with(|| path.clone());
        if let Entry::Vacant(entry) = found.entry(path.clone()) {
            let dynamic = entry.insert(Dynamic::read(&path)?);
            by_name.extend(dynamic.soname.clone().map(|soname| (soname, path)));
        }
    }
    for (path, dynamic) in found {
        let kind = match &path {
            path if path == loader => Kind::Loader,
            path if path == root => Kind::Program,
            _ => Kind::Library,
        };
        let needs = dynamic.needed.iter().map(|needed| {
            if needed.contains('/') {
                bail!("{} needs {needed}, a path: no store can hold it", path.display());
            }
            let file = by_name.get(needed).with_context(|| {
                format!("{} needs {needed}, which the loader did not name", path.display())
            })?;
            Ok((needed.clone(), file.clone()))
        });
        let needs = needs.collect::<Result<Vec<_>>>()?;
        if sources.get(&path).is_some_and(|old| old.needs != needs) {
            bail!("{}: answered differently in two programs", path.display());
        }
        sources.entry(path).or_insert(Source { kind, dynamic, needs });
    }
    Ok(())
}
