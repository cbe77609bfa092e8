//! The scopes of many starts of the same loader and environment.
//!
//! In a deep store each start loads a large part of all libraries. A [`LoadGraph`] searches for the
//! needed strings of each object once, in a process of its own, and numbers objects, names and
//! files. A start is then a walk over numbers.
//!
//! A start has no walk if a search may have another result in its process (`DT_RPATH`, an errno
//! other than `ENOENT`), if a library is missing or refused, or if something other than a
//! `DT_NEEDED` loads an object. [`Process::load`] predicts these.

use std::ops::Range;
use std::sync::Arc;

use bstr::{BStr, BString};
use rustc_hash::FxHashMap;

use super::open_path::{Found, Request};
use super::{Ended, Process, VDSO_NAMES, verify};
use crate::elf::{DependencyKind, Ident, ObjectView};
use crate::fs::FileId;
use crate::loader::load::{LoadedObject, Reason, Role};

/// The objects of many starts, and the results of their searches.
#[derive(Default)]
pub struct LoadGraph {
    objects: Vec<GraphObject>,
    by_path: FxHashMap<BString, usize>,
    loaders: FxHashMap<BString, usize>,
    edges: Vec<Edge>,
    names: FxHashMap<BString, usize>,
    files: FxHashMap<FileId, usize>,
    /// The number of the current walk.
    walk: u32,
    /// For each name, the state in the last walk in which a loaded object had it.
    named: Vec<Named>,
    /// For each file, the last walk that loaded it.
    loaded: Vec<u32>,
    /// The header of the programs, apart from its type.
    ident: Option<Ident>,
}

/// An object of a [`LoadGraph`].
pub struct GraphObject {
    /// The path by which it is loaded.
    pub path: BString,
    /// The object.
    pub view: Arc<ObjectView>,
    /// The number of its file.
    file: usize,
    /// Its path as a name.
    name: usize,
    soname: Option<usize>,
    /// Its dependencies, as indices of [`LoadGraph::edges`]. The outer `None` means not read yet, the
    /// inner one means that it has dependencies other than `DT_NEEDED`, or `DT_RPATH`.
    needs: Option<Option<Range<usize>>>,
}

impl GraphObject {
    /// Returns its path and soname as names.
    fn names(&self) -> impl Iterator<Item = usize> + use<> {
        [self.name].into_iter().chain(self.soname)
    }
}

/// A needed string of an object.
#[derive(Clone, Copy)]
struct Edge {
    name: usize,
    /// The object that the search finds. `None` if the search fails, or if it may find another object
    /// in another process.
    found: Option<usize>,
}

#[derive(Clone, Copy, Default)]
struct Named {
    walk: u32,
    is_loader: bool,
}

/// The scope of a start ([`crate::loader::load::Load::scope`]), as numbers of a [`LoadGraph`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The program, then the objects in the order in which they are first needed.
    pub objects: Vec<usize>,
    /// The loader, which is not among the objects if none needs it.
    pub loader: usize,
}

const PROGRAM: usize = 0;
const LOADER: usize = 1;

impl LoadGraph {
    /// Returns an object.
    #[must_use]
    pub fn object(&self, number: usize) -> &GraphObject {
        &self.objects[number]
    }

    /// Predicts the scope of a start that has nothing else to predict one by one. `process` makes the
    /// process before any search.
    pub(crate) fn scope<'a>(&mut self, process: &dyn Fn() -> Process<'a>) -> Option<Scope> {
        let first = process();
        let ident = Ident { e_type: 0, ..first.start.view.ident };
        if !first.loads_only_needed() || *self.ident.get_or_insert(ident) != ident {
            return None;
        }
        let [program, loader] = [PROGRAM, LOADER].map(|at| &first.load.objects[at]);
        let loader = match self.loaders.get(&loader.path) {
            Some(&known) => known,
            None => {
                let number = self.add(loader);
                self.loaders.insert(loader.path.clone(), number);
                number
            }
        };
        let program = self.add(program);
        // The names of `Process::add_program_and_loader`.
        self.walk += 1;
        for name in VDSO_NAMES.into_iter().chain([""]) {
            let name = self.name(name.into());
            self.set_names([name], false);
        }
        // The path of the program is not among its names.
        self.set_names(self.objects[program].soname, false);
        self.set_names(self.objects[loader].names(), true);
        self.follow(Scope { objects: vec![program], loader }, process)
    }

    /// `_dl_map_object_deps` for objects without filters.
    fn follow<'a>(&mut self, mut scope: Scope, process: &dyn Fn() -> Process<'a>) -> Option<Scope> {
        let mut needs_loader = false;
        let mut at = 0;
        while let Some(&object) = scope.objects.get(at) {
            let role = match at {
                0 => Role::Program,
                _ if object == scope.loader => Role::Loader,
                _ => Role::Library,
            };
            for edge in self.needs(object, role, process)? {
                let Edge { name, found } = self.edges[edge];
                let named = self.named[name];
                if named.walk == self.walk {
                    // All other objects are in the scope since they are loaded.
                    if named.is_loader && !std::mem::replace(&mut needs_loader, true) {
                        scope.objects.push(scope.loader);
                    }
                    continue;
                }
                let found = found?;
                let file = self.objects[found].file;
                if std::mem::replace(&mut self.loaded[file], self.walk) != self.walk {
                    self.set_names(self.objects[found].names(), false);
                    scope.objects.push(found);
                }
                self.set_names([name], false);
            }
            at += 1;
        }
        Some(scope)
    }

    /// Gives names to an object of the current walk, if no object has them.
    fn set_names(&mut self, names: impl IntoIterator<Item = usize>, is_loader: bool) {
        for name in names {
            if self.named[name].walk != self.walk {
                self.named[name] = Named { walk: self.walk, is_loader };
            }
        }
    }

    /// Returns the edges of an object.
    fn needs<'a>(
        &mut self,
        object: usize,
        role: Role,
        process: &dyn Fn() -> Process<'a>,
    ) -> Option<Range<usize>> {
        if self.objects[object].needs.is_none() {
            self.objects[object].needs = Some(self.search(object, role, process()));
        }
        self.objects[object].needs.clone().flatten()
    }

    /// Searches for the needed strings of an object in a process that loads it alone.
    fn search(
        &mut self,
        object: usize,
        role: Role,
        mut process: Process<'_>,
    ) -> Option<Range<usize>> {
        let GraphObject { path, view, .. } = &self.objects[object];
        let (path, view) = (path.clone(), Arc::clone(view));
        process.init_paths().ok()?;
        let needed_by = match role {
            // These are in every process.
            Role::Program => PROGRAM,
            Role::Loader => LOADER,
            _ => {
                let origin = process.origin_of(&path);
                process.add_object(library(&path, &view, FileId { dev: 0, ino: 0 }), origin)
            }
        };
        let mut edges = Vec::new();
        for dependency in view.dependencies() {
            let name = process.expand_dependency(needed_by, dependency).ok()?;
            let reason = Reason::Dependency(dependency.kind);
            let (name, role) = (name.as_ref(), Role::Library);
            let resolution = process.begin(needed_by, name, reason).ok()?;
            let request = Request { name, resolution, needed_by, role, namespace: 0 };
            let is_special = dependency.kind != DependencyKind::Needed || process.has_rpath;
            if is_special || !process.is_the_same_everywhere(request) {
                return None;
            }
            let found = match process.find(request) {
                Ok(found) => found.filter(|_| !process.met_an_error),
                Err(Ended::Refused(_)) => None,
                Err(Ended::Start) => return None,
            };
            let found = found.and_then(|found| self.found(found));
            edges.push(Edge { name: self.name(name), found });
        }
        let first = self.edges.len();
        self.edges.extend(edges);
        Some(first..self.edges.len())
    }

    /// Returns the number of a file that was found, unless the loader refuses it.
    fn found(&mut self, found: Found) -> Option<usize> {
        let Found { file, path, .. } = found;
        if let Some(&known) = self.by_path.get(&path) {
            return Some(known);
        }
        let view = Arc::clone(file.object.as_ref().ok()?);
        verify::map_from_fd(&view).ok()?;
        let object = library(&path, &view, file.id);
        let number = self.add(&object);
        self.by_path.insert(object.path, number);
        Some(number)
    }

    fn add(&mut self, object: &LoadedObject) -> usize {
        let LoadedObject { path, view, id, .. } = object;
        let next = self.files.len();
        let file = *self.files.entry(*id).or_insert(next);
        self.loaded.resize(self.files.len(), 0);
        let name = self.name(path.as_ref());
        let soname = view.soname().map(|soname| self.name(soname));
        let (path, view) = (path.clone(), Arc::clone(view));
        self.objects.push(GraphObject { path, view, file, name, soname, needs: None });
        self.objects.len() - 1
    }

    /// Returns the number of a name.
    fn name(&mut self, name: &BStr) -> usize {
        if let Some(&known) = self.names.get(name) {
            return known;
        }
        self.names.insert(name.to_owned(), self.named.len());
        self.named.push(Named::default());
        self.named.len() - 1
    }
}

fn library(path: &BString, view: &Arc<ObjectView>, id: FileId) -> LoadedObject {
    let object = LoadedObject::new(path, id, view, Role::Library);
    LoadedObject { loaded_by: Some(PROGRAM), ..object }
}
