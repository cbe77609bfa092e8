//! Reads the closures of programs from the real loader's output.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::elf::Dynamic;
use crate::loader::{self, Listed};
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
#[derive(Debug, Default)]
pub(crate) struct Graph {
    /// Every object.
    pub(crate) sources: BTreeMap<PathBuf, Source>,
    /// The real path of the interpreter of all programs.
    pub(crate) loader: PathBuf,
}

impl Graph {
    /// Runs the loader for every closure.
    ///
    /// # Errors
    /// Returns an error if a library is missing, an object cannot be read, or the programs have
    /// different interpreters.
    pub(crate) fn build(programs: &[Program]) -> Result<Self> {
        let interpreter = shared_interpreter(programs)?;
        let mut graph = Graph { loader: interpreter.canonicalize()?, ..Graph::default() };
        programs.iter().try_for_each(|program| graph.add(&interpreter, &program.path))?;
        Ok(graph)
    }

    /// Adds a program and its closure.
    fn add(&mut self, interpreter: &Path, root: &Path) -> Result<()> {
        let unnamed = |path: &Path| Listed { needed: String::new(), path: Some(path.to_owned()) };
        let mut listed = vec![unnamed(root)];
        listed.extend(loader::list(interpreter, root)?);
        // The loader lists itself only if an object needs it.
        listed.push(unnamed(interpreter));
        let mut found: BTreeMap<PathBuf, Dynamic> = BTreeMap::new();
        let mut by_name: HashMap<String, PathBuf> = HashMap::new();
        for Listed { needed, path } in listed {
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
                path if *path == self.loader => Kind::Loader,
                path if path == root => Kind::Program,
                _ => Kind::Library,
            };
            let needs = dynamic.needed.iter().map(|needed| {
                if needed.contains('/') {
                    bail!("{} needs {needed}, a path: no store can hold it", path.display());
                }
                let file = by_name.get(needed);
                let file = file.with_context(|| {
                    format!("{} needs {needed}, which the loader did not name", path.display())
                })?;
                Ok((needed.clone(), file.clone()))
            });
            let needs = needs.collect::<Result<Vec<_>>>()?;
            if self.sources.get(&path).is_some_and(|old| old.needs != needs) {
                bail!("{}: answered differently in two programs", path.display());
            }
            self.sources.entry(path).or_insert(Source { kind, dynamic, needs });
        }
        Ok(())
    }
}

fn shared_interpreter(programs: &[Program]) -> Result<PathBuf> {
    let named = |program: &Program| -> Result<PathBuf> {
        Ok(Dynamic::read(&program.path)?.interpreter.context("no interpreter")?.into())
    };
    let first = programs.first().context("no programs")?;
    let interpreter = named(first)?;
    for program in programs {
        if named(program)?.canonicalize()? != interpreter.canonicalize()? {
            bail!(
                "{} and {} name different interpreters; give each a store of its own",
                first.path.display(),
                program.path.display()
            );
        }
    }
    Ok(interpreter)
}
