//! Plans the place and the run path of each object in the store.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::graph::{Graph, Kind, Source};
use crate::dpkg::{self, Package};
use crate::programs::Program;

/// An object's place in the store.
#[derive(Debug, Clone)]
pub(crate) struct Placed {
    /// The real file from which it is made.
    pub(crate) original: PathBuf,
    /// Its kind.
    pub(crate) kind: Kind,
    /// Its package.
    pub(crate) package: Package,
    /// Its file in the store.
    pub(crate) path: PathBuf,
    /// Other names in the same directory: needed strings that differ from its soname.
    pub(crate) links: BTreeSet<String>,
    /// Each needed string, in order, and the store's file that must be found for it.
    pub(crate) needs: Vec<(String, PathBuf)>,
    /// Its run path: absolute directories in search order.
    pub(crate) run_path: Vec<PathBuf>,
    /// The interpreter to set.
    pub(crate) interpreter: Option<PathBuf>,
    /// True if it is copied unchanged: the loader and libc, which no tool may rewrite, and objects
    /// without anything to change.
    pub(crate) untouched: bool,
}

/// A program of the store.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ProgramEntry {
    /// Its name in the lab.
    pub(crate) name: String,
    /// Its file in the store.
    pub(crate) path: PathBuf,
    /// The file from which it was made.
    pub(crate) original: PathBuf,
}

/// The plan of a whole store.
#[derive(Debug)]
pub(crate) struct Layout {
    /// Its root, absolute.
    pub(crate) store: PathBuf,
    /// The store's own loader, or the system's.
    pub(crate) loader: PathBuf,
    /// True if run paths are `DT_RPATH` and the C library is the system's.
    pub(crate) rpath: bool,
    /// Every object, ordered by place.
    pub(crate) objects: Vec<Placed>,
    /// Every program.
    pub(crate) programs: Vec<ProgramEntry>,
    /// Links and targets of data that a program searches for relative to itself.
    pub(crate) data: Vec<(PathBuf, PathBuf)>,
}

/// Directories that a program searches for relative to itself and without which it does not start:
/// its package and the directory's name. They are linked and not copied, because files opened at
/// run time are not part of a closure.
const DATA: [(&str, &str); 1] = [("emacs-nox", "native-lisp")];

impl Layout {
    /// Gives every object of `graph` its place below `store`.
    ///
    /// # Errors
    /// Returns an error if two files would get the same place.
    pub(crate) fn plan(
        store: &Path,
        graph: &Graph,
        programs: &[Program],
        owners: &BTreeMap<PathBuf, Package>,
        rpath: bool,
    ) -> Result<Self> {
        let of_system =
            |original: &PathBuf| rpath && owners[original].name == owners[&graph.loader].name;
        let mut places: HashMap<&Path, PathBuf> = HashMap::new();
        for (original, source) in &graph.sources {
            let place = match of_system(original) {
                true => original.clone(),
                false => place(store, original, source, &owners[original]),
            };
            if let Some((other, _)) = places.iter().find(|(_, taken)| **taken == place) {
                let (other, own) = (other.display(), original.display());
                bail!("{other} and {own} both want {}", place.display());
            }
            places.insert(original, place);
        }
        let loader = places.get(graph.loader.as_path()).context("no loader in the closure")?;
        let mut objects = Vec::new();
        for (original, source) in &graph.sources {
            if of_system(original) {
                continue;
            }
            let mut placed = placed(original, source, &owners[original], &places, loader);
            if rpath {
                placed.run_path.retain(|dir| dir.starts_with(store));
                placed.interpreter = None;
            }
            // Needed strings that differ from the name of the file.
            let needs = graph.sources.values().flat_map(|source| &source.needs);
            let of_it =
                needs.filter(|(needed, file)| file == original && !placed.path.ends_with(needed));
            placed.links = of_it.map(|(needed, _)| needed.clone()).collect();
            objects.push(placed);
        }
        objects.sort_by(|a, b| a.path.cmp(&b.path));
        let programs = programs.iter().map(|program| ProgramEntry {
            name: program.name.clone(),
            path: places[program.path.as_path()].clone(),
            original: program.path.clone(),
        });
        Ok(Layout {
            store: store.to_owned(),
            loader: loader.clone(),
            rpath,
            programs: programs.collect(),
            data: data(store, &objects)?,
            objects,
        })
    }

    /// Returns true for a file that stays where it is.
    pub(crate) fn is_of_system(&self, path: &Path) -> bool {
        self.rpath && !path.starts_with(&self.store)
    }

    /// Returns the place of `original`'s copy.
    pub(crate) fn object(&self, path: &Path) -> Option<&Placed> {
        let index = self.objects.binary_search_by(|placed| placed.path.as_path().cmp(path));
        index.ok().map(|index| &self.objects[index])
    }
}

fn place(store: &Path, original: &Path, source: &Source, package: &Package) -> PathBuf {
    let base = original.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let directory = store.join(package.directory());
    match (source.kind, &source.dynamic.soname) {
        (Kind::Program, _) => directory.join("bin").join(base),
        (_, Some(soname)) if !soname.contains('/') => directory.join("lib").join(soname),
        _ => directory.join("lib").join(base),
    }
}

/// Returns the links of [`DATA`], each in its place below `/usr`.
fn data(store: &Path, objects: &[Placed]) -> Result<Vec<(PathBuf, PathBuf)>> {
    let mut links = Vec::new();
    for program in objects.iter().filter(|placed| placed.kind == Kind::Program) {
        let package = &program.package;
        for (_, name) in DATA.iter().filter(|(of, _)| *of == package.name) {
            for target in dpkg::files_of(&package.name)? {
                if let Ok(rest) = target.strip_prefix("/usr")
                    && target.ends_with(name)
                {
                    links.push((store.join(package.directory()).join(rest), target));
                }
            }
        }
    }
    Ok(links)
}

fn placed(
    original: &Path,
    source: &Source,
    package: &Package,
    places: &HashMap<&Path, PathBuf>,
    loader: &Path,
) -> Placed {
    let path = places[original].clone();
    let needs: Vec<(String, PathBuf)> = source
        .needs
        .iter()
        .map(|(needed, file)| (needed.clone(), places[file.as_path()].clone()))
        .collect();
    let fixed =
        source.kind == Kind::Loader || source.dynamic.soname.as_deref() == Some("libc.so.6");
    let run_path = if fixed { Vec::new() } else { run_path(&path, &needs) };
    let is_program = source.kind == Kind::Program;
    let had_run_path = source.dynamic.rpath.is_some() || source.dynamic.runpath.is_some();
    Placed {
        original: original.to_owned(),
        kind: source.kind,
        package: package.clone(),
        links: BTreeSet::new(),
        interpreter: is_program.then(|| loader.to_owned()),
        untouched: fixed || (run_path.is_empty() && !had_run_path && !is_program),
        path,
        needs,
        run_path,
    }
}

/// Returns one directory for each package of the needed strings: first the object's own, then the
/// others in order of need.
fn run_path(path: &Path, needs: &[(String, PathBuf)]) -> Vec<PathBuf> {
    let own = path.parent().and_then(Path::parent).map(|package| package.join("lib"));
    let mut dirs: Vec<PathBuf> = Vec::new();
    for dir in needs.iter().filter_map(|(_, file)| file.parent()) {
        if dirs.iter().any(|known| known == dir) {
            continue;
        }
        let at = if own.as_deref() == Some(dir) { 0 } else { dirs.len() };
        dirs.insert(at, dir.to_owned());
    }
    dirs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_run_path_has_one_directory_a_package_own_first_then_in_order_of_need() {
        let need = |file: &str| (String::new(), PathBuf::from(file));
        let needs = [
            need("/s/b/lib/libb.so"),
            need("/s/c/lib/libc.so"),
            need("/s/a/lib/libown.so"),
            need("/s/b/lib/libb2.so"),
        ];
        let dirs = run_path(Path::new("/s/a/bin/program"), &needs);
        assert_eq!(dirs, ["/s/a/lib", "/s/b/lib", "/s/c/lib"].map(PathBuf::from));
    }

    #[test]
    fn an_own_package_that_answers_nothing_is_no_search_dir() {
        let needs = [(String::new(), PathBuf::from("/s/b/lib/libb.so"))];
        let dirs = run_path(Path::new("/s/a/lib/liba.so"), &needs);
        assert_eq!(dirs, [PathBuf::from("/s/b/lib")]);
    }
}
