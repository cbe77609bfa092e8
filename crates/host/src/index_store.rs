//! Indexes stores: walks them, resolves every object, and builds the index. `becalm index` adds
//! only the command line and the file. [`update`] reuses the valid part of an earlier index,
//! [`directories`] records the directories by which an update detects changes, and [`trees`]
//! detects trees that are not immutable.

mod bound;
mod directories;
mod fingerprints;
mod machines;
mod own_files;
mod programs;
mod rpath;
mod trees;
mod update;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use becalm_core::facts::{GLIBC_RANGE, Libc, LoaderFacts};
use becalm_core::fs::FileSystem;
use becalm_core::index::bound::NotBound;
use becalm_core::index::build::{Deferred, Resolver, Sources};
use becalm_core::index::hash;
use becalm_core::index::{Condition, Index, Object, Program, Target};
use becalm_core::search::Stores;
use becalm_core::search::store::below;
use bstr::{BString, ByteSlice};
use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::filters::filters;
use crate::path::{path_bytes, path_of, real};
use crate::{
    FactChoice, Format, Found, HostError, OsFs, Session, WalkOptions, find_objects, loader_facts,
};

pub use bound::{BindThreshold, Binding};
pub use fingerprints::OsFingerprints;
pub(crate) use fingerprints::fingerprint_of;
pub use own_files::is_index;
pub(crate) use trees::is_changed_in_place;
pub use trees::{last_installed, package_dirs, python_of, trees_beside};
pub use update::update_stores;

use bound::Kept;
use machines::{Group, by_machine, kind_of};
use rpath::ListedDirs;

/// Number of objects after which a session reads the state of each directory again.
const CHUNK: usize = 256;
/// Maximum number of non-canonical paths per file that are resolved as objects of their own.
const MOST_NAMES: usize = 8;

/// The input of an indexing run.
#[derive(Clone, Copy, Default)]
pub struct IndexOptions<'a> {
    /// The stores. They are walked, and immutable unless they are [changed in
    /// place](is_changed_in_place).
    pub stores: &'a [PathBuf],
    /// Additional objects, by their real paths.
    pub files: &'a [PathBuf],
    /// Additional trees that are walked and that count as changed in place.
    pub trees: &'a [PathBuf],
    /// Additional immutable prefixes, which are not walked. A prefix that does not exist is
    /// ignored.
    pub prefixes: &'a [PathBuf],
    /// Directories that `LD_LIBRARY_PATH` names.
    pub dirs: &'a [PathBuf],
    /// Directories whose times show each change, although their file system is not known for it.
    pub trusted_times: &'a [PathBuf],
    /// The programs to bind. `None` binds no program.
    pub bind: Option<Binding<'a>>,
    /// True if the files are those of an image that is copied. Files of root are then recognised by
    /// length and modification time ([`Condition::of_image`]).
    pub image: bool,
    /// The user's choices about the loader.
    pub facts: Option<&'a FactChoice>,
    /// The same as [`WalkOptions::progress`].
    pub progress: Option<&'a (dyn Fn(usize) + Sync)>,
}

/// The index of one machine's objects.
#[derive(Debug)]
pub struct MachineIndex {
    /// The machine.
    pub target: Target,
    /// The index.
    pub index: Index,
    /// Numbers of deferred lookups by reason, the largest first.
    pub deferred_by: Vec<(Deferred, usize)>,
    /// Programs without bindings, with the reason.
    pub not_bound: Vec<(BString, NotBound)>,
    /// Number of objects that were read. The answers of the others come from the earlier index.
    pub read: usize,
}

/// The result of an indexing run.
#[derive(Debug, Default)]
pub struct Indexed {
    /// An index for each machine, the one with the most objects first.
    pub machines: Vec<MachineIndex>,
    /// Machines whose loader does not exist here, with the number of their objects. If this applies
    /// to all machines, it is an error.
    pub without_loader: Vec<(Target, usize)>,
    /// Errors for files that could not be read.
    pub errors: Vec<HostError>,
}

/// Indexes every object below the stores and trees of the options that needs other objects, their
/// files, and the objects that the answers of those name.
#[must_use]
pub fn index_stores(os: &OsFs, options: IndexOptions<'_>) -> Indexed {
    let trees = options.stores.iter().chain(options.trees);
    let roots: Vec<PathBuf> = trees.map(|path| real(path)).collect();
    // The loader knows an object by its path, so each name of a file is an object.
    let progress = options.progress;
    let walk = WalkOptions { progress, every_name: true, folders: true, ..WalkOptions::default() };
    let walked = find_objects(&roots, walk);
    let mut paths: Vec<BString> =
        options.files.iter().map(|path| path_bytes(&real(path))).collect();
    paths.extend(elf_paths(&walked.objects, &roots));
    paths.sort_unstable();
    paths.dedup();
    let folders: Vec<BString> = walked.folders.iter().map(|folder| path_bytes(folder)).collect();
    let mut indexed = index_paths(os, &paths, &folders, options);
    indexed.errors.splice(0..0, walked.errors);
    indexed
}

/// Returns the ELF files of a walk, except those beside an index and those in a hidden directory at
/// the top of a store: Nix keeps a second name of every file in `.links`.
fn elf_paths(objects: &[Found], roots: &[PathBuf]) -> Vec<BString> {
    let roots: Vec<BString> = roots.iter().map(|root| path_bytes(root)).collect();
    let is_hidden = |path: &BString| {
        roots.iter().any(|root| below(path, root).is_some_and(|p| p.starts_with(b".")))
    };
    let elf = objects.iter().filter(|found| found.format == Format::Elf);
    let elf = elf.filter(|found| !own_files::is_beside_index(&found.path));
    elf.map(|found| path_bytes(&found.path)).filter(|path| !is_hidden(path)).collect()
}

/// Returns the immutable prefixes: stores and additional prefixes as named and with links resolved,
/// without trees that are changed in place.
fn immutable(os: &OsFs, options: IndexOptions<'_>) -> Stores {
    let prefixes = options.prefixes.iter().filter(|prefix| prefix.is_dir());
    let all = options.stores.iter().chain(prefixes).filter(|tree| !is_changed_in_place(tree));
    let mut paths: Vec<BString> = all.map(|path| path_bytes(path)).collect();
    paths.sort_unstable();
    Stores::of(paths).resolved(&os.session())
}

fn index_paths(
    os: &OsFs,
    paths: &[BString],
    folders: &[BString],
    options: IndexOptions<'_>,
) -> Indexed {
    let fingerprints = OsFingerprints::trusting(options.trusted_times);
    let mut failed = Vec::new();
    let stores = immutable(os, options);
    let mut machines: Vec<MachineIndex> = by_machine(os, paths)
        .into_values()
        .filter_map(|group| {
            let work = Work::new(os, fingerprints.clone(), options, (&stores, &group, folders));
            let deferred =
                |error| failed.push((Target::of(&group.ident), group.paths.len(), error));
            work.map_err(deferred).ok().map(|work| work.index())
        })
        .collect();
    machines.sort_by_key(|machine| std::cmp::Reverse(machine.index.objects.len()));
    let mut indexed = Indexed { machines, ..Indexed::default() };
    for (target, objects, error) in failed {
        let is_not_here = matches!(&error, HostError::Interpreter { source, .. }
            if source.kind() == ErrorKind::NotFound);
        if is_not_here && !indexed.machines.is_empty() {
            indexed.without_loader.push((target, objects));
        } else {
            indexed.errors.push(error);
        }
    }
    indexed
}

/// The objects that need not be resolved again.
#[derive(Default)]
struct Seen {
    known: FxHashSet<BString>,
    /// The directories of `DT_RPATH`s that were listed.
    listed: ListedDirs,
    /// The number of non-canonical paths of each file.
    names: FxHashMap<BString, usize>,
}

impl Seen {
    /// Counts a path of a file. Returns false beyond the limit.
    ///
    /// Objects that need each other through `$ORIGIN/..` name each other by ever longer paths. No
    /// process uses the long ones, because the object is loaded already.
    fn count(&mut self, fs: &dyn FileSystem, path: &BString) -> bool {
        let real = fs.canonicalize(path.as_ref()).ok().filter(|real| real != path);
        let Some(real) = real else { return true };
        let count = self.names.entry(real).or_default();
        *count += 1;
        *count <= MOST_NAMES
    }
}

/// State of indexing one machine's objects.
struct Work<'a> {
    os: &'a OsFs,
    fingerprints: OsFingerprints,
    options: IndexOptions<'a>,
    stores: &'a Stores,
    group: &'a Group,
    /// The directories below the stores that were listed.
    folders: &'a [BString],
    /// The facts of the chosen loader.
    facts: Arc<LoaderFacts>,
    /// The loaders that search as the chosen one does, separated by `:`.
    loaders: BString,
}

impl<'a> Work<'a> {
    /// Finds the loader of a group of objects, and those that are like it.
    fn new(
        os: &'a OsFs,
        fingerprints: OsFingerprints,
        options: IndexOptions<'a>,
        (stores, group, folders): (&'a Stores, &'a Group, &'a [BString]),
    ) -> Result<Self, HostError> {
        let choice = options.facts.cloned().unwrap_or_default();
        let facts = loader_facts(os, group.interpreter.as_ref(), &choice)?;
        if !matches!(facts.libc, Libc::Glibc(version) if version >= GLIBC_RANGE.0) {
            let libc = facts.libc;
            let reason = format!("an index has no effect on {libc}; it needs glibc 2.31 or later");
            return Err(HostError::unusable(path_of(group.interpreter.as_ref()), reason));
        }
        // The others with the same release, cache path and system directories.
        let is_alike = |path: &&BString| {
            !path.contains(&b':')
                && loader_facts(os, path.as_bstr(), &choice).is_ok_and(|other| {
                    other.libc == facts.libc
                        && other.cache_path == facts.cache_path
                        && other.system_dirs == facts.system_dirs
                })
        };
        let alike: Vec<&BString> = group.interpreters.iter().filter(is_alike).collect();
        let loaders = bstr::join(":", alike).into();
        Ok(Self { os, fingerprints, options, stores, group, folders, facts, loaders })
    }

    fn index(&self) -> MachineIndex {
        let mut seen =
            Seen { known: self.group.paths.iter().cloned().collect(), ..Seen::default() };
        let further = self.named_by_links(&mut seen.known);
        let resolved = self.resolve_all(&self.group.paths, &further, &mut seen);
        let read = resolved.len();
        let common = self.common(&self.searched(&resolved));
        let objects = std::iter::once(common).chain(resolved).collect();
        let programs = self.programs(&self.group.programs);
        self.gather(objects, programs, (read, seen.listed), None)
    }

    /// Returns the paths of the options' files that have a link in them. The loader knows a library by
    /// the name that it found, such as that of the loader cache.
    fn named_by_links(&self, known: &mut FxHashSet<BString>) -> Vec<BString> {
        let files = self.options.files.iter().filter(|path| path.is_absolute());
        // An object of another machine is not known by its real path either.
        let of_machine = files.filter(|path| known.contains(&path_bytes(&real(path))));
        let paths: Vec<BString> = of_machine.map(|path| path_bytes(path)).collect();
        paths.into_iter().filter(|path| known.insert(path.clone())).collect()
    }

    /// Resolves the objects of these paths, those of `further` non-canonical paths, and those that
    /// their answers name, except objects that were seen.
    fn resolve_all(&self, paths: &[BString], further: &[BString], seen: &mut Seen) -> Vec<Object> {
        let mut resolved = self.resolve(paths, true);
        let mut from = 0;
        let mut new = further.to_vec();
        loop {
            resolved.extend(self.resolve(&new, false));
            let answers = resolved[from..].iter().flat_map(|object| &object.edges);
            let answers: Vec<BString> = answers.map(|edge| edge.path.clone()).collect();
            let below = self.list(&resolved[from..], &mut seen.listed);
            new = answers
                .into_iter()
                .chain(below)
                .filter(|path| seen.known.insert(path.clone()))
                .collect();
            let session = self.os.session();
            new.retain(|path| seen.count(&session, path));
            if new.is_empty() {
                return resolved;
            }
            from = resolved.len();
        }
    }

    /// Builds the index from resolved objects, the common one first.
    fn gather(
        &self,
        mut objects: Vec<Object>,
        programs: Vec<Program>,
        (read, listed): (usize, ListedDirs),
        kept: Option<&Kept<'_>>,
    ) -> MachineIndex {
        for object in &mut objects {
            // It has an answer only if all of the directories are known.
            object.rpath.take_if(|dirs| !dirs.iter().all(|dir| listed.contains_key(&**dir)));
        }
        let deferred_by = by_reason(&objects);
        let mut index = Index::default();
        let flat = self.directories(&mut index, &objects);
        index.search_dirs =
            listed.into_iter().map(|(dir, listed)| listed.search_dir(dir)).collect();
        index.objects = objects;
        let is_rooted = |path: &BString| flat.iter().any(|store| below(path, store).is_some());
        let (mut bound, not_bound) = self.bound(&programs, kept);
        bound.objects.iter_mut().for_each(|object| object.is_rooted = is_rooted(&object.path));
        index.programs = programs;
        index.settings = self.settings();
        index.bound = bound;
        index.filters = filters();
        index.map_conditions(|condition| match condition {
            // No store root shows that packages came or went, so the module checks the path each time.
            Condition::AbsentPackage(path) if !is_rooted(path) => Condition::Absent(path.clone()),
            known if self.options.image && own_files::is_of_root(known.path()) => {
                known.clone().of_image()
            }
            known => known.clone(),
        });
        let target = Target::of(&self.group.ident);
        MachineIndex { target, index, deferred_by, not_bound, read }
    }

    /// Returns a hash of everything else that the answers depend on ([`Index::settings`]).
    fn settings(&self) -> u32 {
        let LoaderFacts { libc, system_dirs, cache_path, .. } = &*self.facts;
        // Another version may give other answers for the same files.
        let version = env!("CARGO_PKG_VERSION");
        let (loaders, stores) = (&self.loaders, self.stores);
        let text =
            format!("{version} {libc:?} {system_dirs:?} {cache_path:?} {loaders:?} {stores:?}");
        hash::bytes(0, text.as_bytes()) as u32
    }

    /// Returns the directories in stores that objects search.
    fn searched(&self, objects: &[Object]) -> FxHashSet<Arc<BString>> {
        let all = objects.iter().flat_map(|object| &object.searched);
        all.filter(|dir| self.is_in_store(dir)).cloned().collect()
    }

    fn sources<'s>(&'s self, fs: &'s dyn FileSystem) -> Sources<'s> {
        Sources {
            fs,
            fingerprints: &self.fingerprints,
            facts: &self.facts,
            loader: self.loaders.as_ref(),
            ident: &self.group.ident,
            stores: self.stores,
        }
    }

    /// Returns the common object, from all directories of run paths.
    fn common(&self, dirs: &FxHashSet<Arc<BString>>) -> Object {
        let session = self.os.session();
        let resolver = Resolver::new(self.sources(&session));
        let names = names_of(dirs);
        resolver.common(|name| names.as_ref().is_some_and(|names| !names.contains(name)))
    }

    /// Resolves the objects of these paths.
    fn resolve(&self, paths: &[BString], canonical: bool) -> Vec<Object> {
        self.for_each(paths, |session, resolver, path| {
            // Taken before the file is read: if it changes in between, an update reads it again.
            let fingerprint = self.settled(path.as_ref());
            let file = session.open(path.as_ref()).ok()?;
            let view = file.object.as_ref().ok()?;
            let seen = fingerprint.map_or(0, |fingerprint| fingerprint.digest());
            Some(Object { seen, ..resolver.object(path.as_ref(), view, canonical)? })
        })
    }

    /// Calls `each` for paths in parallel. Some of them share a session.
    fn for_each<P: Sync, R: Send>(
        &self,
        paths: &[P],
        each: impl Fn(&Session<'_>, &Resolver<'_>, &P) -> Option<R> + Sync,
    ) -> Vec<R> {
        let of_some = |paths: &[P]| {
            let session = self.os.session();
            let resolver = Resolver::new(self.sources(&session));
            paths.iter().filter_map(|path| each(&session, &resolver, path)).collect::<Vec<R>>()
        };
        paths.par_chunks(CHUNK).flat_map_iter(of_some).collect()
    }
}

/// Counts deferred lookups by reason, the largest number first. A lookup that depends on the
/// `DT_RPATH` of an ancestor does not count if all directories of the object's own path are listed,
/// because the module then answers it.
fn by_reason(objects: &[Object]) -> Vec<(Deferred, usize)> {
    let of_one = |object: &Object, why: Deferred| match why {
        Deferred::Ancestors if object.rpath.is_some() => 0,
        why => why.count(&object.deferred),
    };
    let count = |why: Deferred| objects.iter().map(|object| of_one(object, why)).sum();
    let counts = Deferred::ALL.into_iter().map(|why| (why, count(why)));
    let mut counts: Vec<(Deferred, usize)> = counts.filter(|&(_, count)| count > 0).collect();
    counts.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    counts
}

/// Returns the names in directories, or `None` if one of them cannot be listed and may have any
/// name.
fn names_of(dirs: &FxHashSet<Arc<BString>>) -> Option<FxHashSet<BString>> {
    let dirs: Vec<&Arc<BString>> = dirs.iter().collect();
    let names: Option<Vec<Vec<BString>>> = dirs.par_iter().map(|dir| names_in(dir)).collect();
    Some(names?.into_iter().flatten().collect())
}

/// Returns the names in a directory, none if it does not exist, or `None` if it cannot be listed.
fn names_in(dir: &BString) -> Option<Vec<BString>> {
    match path_of(dir).read_dir() {
        Ok(entries) => {
            let names = entries.map(|entry| Some(path_bytes(Path::new(&entry.ok()?.file_name()))));
            names.collect()
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some(Vec::new()),
        Err(_) => None,
    }
}
