//! Reads the closures of programs from the real loader's output.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rayon::prelude::*;

use crate::elf::Dynamic;
use crate::loader;
use crate::programs::Program;

/// Kind of an object.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// A requested program.
    Program,
    /// A library of a closure, or an additional requested object.
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
    /// Every program with its real path and the real paths of its closure in load order. The
    /// program is the first, and the loader is included.
    pub(crate) programs: Vec<(Program, Vec<PathBuf>)>,
    /// The additional requested objects, by real path.
    pub(crate) extras: Vec<PathBuf>,
    /// The real path of the interpreter of all programs.
    pub(crate) loader: PathBuf,
}

impl Graph {
    /// Runs the loader for every closure and reads every object once.
    ///
    /// # Errors
    /// Returns an error if a library is missing, an object cannot be read, or the programs have
    /// different interpreters.
    pub(crate) fn build(programs: &[Program], extras: &[PathBuf]) -> Result<Self> {
        let interpreter = shared_interpreter(programs)?;
        let mut graph = Graph {
            loader: interpreter.canonicalize()?,
            extras: extras.to_vec(),
            ..Graph::default()
        };
        let roots: Vec<&Path> = programs
            .iter()
            .map(|program| program.path.as_path())
            .chain(extras.iter().map(PathBuf::as_path))
            .collect();
        let answers: Vec<Answer> =
            roots.par_iter().map(|root| Answer::ask(&interpreter, root)).collect::<Result<_>>()?;
        for (index, answer) in answers.iter().enumerate() {
            let kind = if index < programs.len() { Kind::Program } else { Kind::Library };
            graph.add(roots[index], kind, answer)?;
            if let Some(program) = programs.get(index) {
                graph.programs.push((program.clone(), answer.order.clone()));
            }
        }
        Ok(graph)
    }

    /// Returns the real paths of all objects.
    pub(crate) fn paths(&self) -> BTreeSet<PathBuf> {
        self.sources.keys().cloned().collect()
    }

    fn add(&mut self, root: &Path, kind: Kind, answer: &Answer) -> Result<()> {
        for path in &answer.order {
            let kind = match path {
                path if *path == self.loader => Kind::Loader,
                path if path == root => kind,
                _ => Kind::Library,
            };
            let dynamic = answer.dynamic[path].clone();
            let mut needs = Vec::new();
            for needed in &dynamic.needed {
                if needed.contains('/') {
                    bail!("{} needs {needed}, a path: no store can hold it", path.display());
                }
                let file = answer.by_name.get(needed);
                let file = file.with_context(|| {
                    format!("{} needs {needed}, which the loader did not name", path.display())
                })?;
                needs.push((needed.clone(), file.clone()));
            }
            if let Some(old) = self.sources.get(path)
                && old.needs != needs
            {
                bail!("{}: answered differently in two programs", path.display());
            }
            self.sources.entry(path.clone()).or_insert(Source { kind, dynamic, needs });
        }
        Ok(())
    }
}

/// The loader's output for one root.
struct Answer {
    order: Vec<PathBuf>,
    dynamic: HashMap<PathBuf, Dynamic>,
    by_name: HashMap<String, PathBuf>,
}

impl Answer {
    fn ask(interpreter: &Path, root: &Path) -> Result<Self> {
        let mut answer = Answer {
            order: vec![root.to_owned()],
            dynamic: HashMap::from([(root.to_owned(), Dynamic::read(root)?)]),
            by_name: HashMap::new(),
        };
        let mut listed = loader::list(interpreter, root)?;
        // The loader lists itself only if an object needs it.
        let own = interpreter.to_path_buf();
        listed.push(loader::Listed { needed: String::new(), path: Some(own) });
        for line in listed {
            let Some(path) = line.path else {
                bail!("{}: {} is not on this machine", root.display(), line.needed);
            };
            let path = path.canonicalize().with_context(|| format!("{}", path.display()))?;
            answer.by_name.entry(line.needed).or_insert_with(|| path.clone());
            if answer.dynamic.contains_key(&path) {
                continue;
            }
            let dynamic = Dynamic::read(&path)?;
            if let Some(soname) = &dynamic.soname {
                answer.by_name.entry(soname.clone()).or_insert_with(|| path.clone());
            }
            answer.order.push(path.clone());
            answer.dynamic.insert(path, dynamic);
        }
        Ok(answer)
    }
}

fn shared_interpreter(programs: &[Program]) -> Result<PathBuf> {
    let mut found: Option<(PathBuf, &Program)> = None;
    for program in programs {
        let named = Dynamic::read(&program.path)?.interpreter.context("no interpreter")?;
        let named = PathBuf::from(named);
        match &found {
            Some((other, first)) if other.canonicalize()? != named.canonicalize()? => bail!(
                "{} and {} name different interpreters; give each a store of its own",
                first.path.display(),
                program.path.display()
            ),
            Some(_) => {}
            None => found = Some((named, program)),
        }
    }
    Ok(found.context("further objects need a program whose loader can place them")?.0)
}
