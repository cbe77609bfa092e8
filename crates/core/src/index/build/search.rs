//! The search itself, in the order of [`Requester::sources`]. Each step records the conditions of its
//! outcome.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use bstr::{BStr, BString, ByteSlice};
use rustc_hash::{FxHashMap, FxHashSet};

use super::cache::Cache;
use super::{Condition, Deferred, Edge, Listed, Object, Sources, is_in_package};
use crate::elf::ObjectView;
use crate::fs::{Errno, FileKind, FileSystem, OpenedFile};
use crate::index::hash::run_path_digest;
use crate::loader::glibc::run_path::{Look, RunPath, fixed_dir, look};
use crate::path;
use crate::search::hwcaps::variants::Variants;
use crate::search::order::{Requester, Source};
use crate::search::store::below;

/// Finds the answers for objects. Directories are remembered between objects.
pub struct Resolver<'a> {
    sources: Sources<'a>,
    cache: Option<Cache>,
    dirs: RefCell<FxHashMap<BString, Rc<Dir>>>,
}

/// The properties of a search directory.
struct Dir {
    /// Ends in a slash.
    name: BString,
    /// The name without it.
    plain: Arc<BString>,
    immutable: bool,
    /// The condition that a directory in a store is as it was. `None` outside of stores.
    in_store: Option<Arc<Condition>>,
    /// True if the directory exists. An error if no answer can depend on it.
    is_there: Result<bool, Deferred>,
    /// The condition that this stays so, if it may change.
    condition: Option<Arc<Condition>>,
    variants: Variants,
}

impl Dir {
    /// Returns true if nothing in the directory depends on the time or the CPU.
    fn is_closed(&self) -> bool {
        let is_settled = self.is_there.is_ok() && self.condition.is_none();
        self.immutable && is_settled && !self.variants.any()
    }
}

/// The result of a part of the search: the path, if it was found. The flag is true if the file may be
/// removed later, or if not every user may open it.
type Step = Result<Option<(BString, bool)>, Deferred>;

impl<'a> Resolver<'a> {
    /// Reads the loader cache.
    #[must_use]
    pub fn new(sources: Sources<'a>) -> Self {
        let cache = Cache::read(&sources);
        Self { sources, cache, dirs: RefCell::default() }
    }

    /// Returns the answers for an object under one of its paths. Returns `None` for an object
    /// without a run path, whose lookups depend only on the objects that loaded it.
    ///
    /// `canonical` is true if no component of the path is a link. The kernel then starts a program
    /// under this path. [`Object::rpath`] has all directories of a `DT_RPATH`, listed or not.
    #[must_use]
    pub fn object(&self, path: &BStr, view: &ObjectView, canonical: bool) -> Option<Object> {
        let run_path = RunPath::of(view)?;
        let Requester { has_rpath, no_default_dirs, .. } = run_path.requester;
        // A program's own DT_RPATH is all that it searches before LD_LIBRARY_PATH. A library also
        // searches the DT_RPATH of the objects above it.
        let leads = !has_rpath || view.interpreter.is_some();
        let dirs = self.directories(path, &run_path);
        let closed = leads
            && !no_default_dirs
            && dirs.iter().all(|dir| dir.as_ref().is_some_and(|dir| dir.is_closed()));
        let searched: Vec<_> = dirs.iter().flatten().map(|dir| Arc::clone(&dir.plain)).collect();
        let has_rpath = has_rpath && dirs.iter().all(Option::is_some);
        let mut object = Object {
            path: path.to_owned(),
            canonical,
            closed,
            run_path: run_path_digest(&run_path),
            is_program: view.interpreter.is_some() && !view.is_library(),
            in_stores: dirs.iter().flatten().filter_map(|dir| dir.in_store.clone()).collect(),
            rpath: has_rpath.then(|| searched.clone()),
            searched,
            ..Object::default()
        };
        let mut seen = FxHashSet::default();
        for name in view.lookups().filter(|name| seen.insert(name.clone())) {
            let mut lookup = Lookup { resolver: self, name: name.as_ref(), conditions: Vec::new() };
            match lookup.ask(&dirs, run_path.requester, leads) {
                Ok(edge) => object.edges.push(Edge { conditions: once(lookup.conditions), ..edge }),
                Err(why) => why.add(&mut object.deferred),
            }
        }
        Some(object)
    }

    /// Returns the answers of a directory of a run path for any name; `list` gives the names in a
    /// directory. Returns `None` if that depends on the CPU or cannot be determined.
    #[must_use]
    pub fn listed(
        &self,
        dir: &BStr,
        list: &dyn Fn(&BStr) -> Option<Vec<BString>>,
    ) -> Option<Listed> {
        let dir = self.dir([dir.as_bytes(), b"/"].concat().into());
        let look = !dir.immutable || !self.is_for_all(dir.name.as_ref());
        let conditions = dir.in_store.iter().chain(&dir.condition).cloned();
        let mut listed = Listed { conditions: conditions.collect(), look, names: Vec::new() };
        listed.conditions.dedup();
        if !dir.is_there.ok()? {
            return Some(listed);
        }
        // A new file in a subdirectory does not change the fingerprint of a mutable directory.
        if !dir.immutable && dir.variants.any() {
            return None;
        }
        let mut of_cpus = FxHashSet::default();
        for level in dir.variants.subdirectories()? {
            of_cpus.extend(list(level)?);
        }
        for name in list(dir.plain.as_bstr())? {
            if !of_cpus.contains(&name)
                && let Some(is_certain) = self.is_answer(&dir, name.as_ref())
            {
                listed.names.push((name, is_certain));
            }
        }
        listed.names.extend(of_cpus.into_iter().map(|name| (name, false)));
        Some(listed)
    }

    /// Returns true if a name in a directory is an answer for certain. Returns `None` if the loader
    /// skips the file.
    fn is_answer(&self, dir: &Dir, name: &BStr) -> Option<bool> {
        // No other file can be needed, and the check has to open the file.
        if !name.contains_str(".so") {
            return Some(false);
        }
        match self.judge(dir.name.as_ref(), name, dir.immutable) {
            Ok(Some((_, look))) => Some(!look || !dir.immutable),
            Ok(None) if self.sources.fs.stat(path::join(&dir.plain, name).as_ref()).is_ok() => None,
            _ => Some(false),
        }
    }

    /// Judges one candidate. In a store, a file for another machine stays one. A file that this
    /// user may not open is deferred, because another user may open it.
    fn judge(&self, dir: &BStr, name: &BStr, immutable: bool) -> Step {
        let sources = &self.sources;
        let file = match look(sources.fs, dir, name, sources.ident, None) {
            Look::Found(file) => file,
            Look::Absent => return Ok(None),
            Look::PassedOver if immutable => return Ok(None),
            _ => return Err(Deferred::Candidate),
        };
        let path: BString = [dir.as_bytes(), name.as_bytes()].concat().into();
        if !goes_by(sources.fs, &file, path.as_ref()) {
            return Err(Deferred::OtherName);
        }
        if !is_readable(&file) {
            return Err(Deferred::Candidate);
        }
        // The file may be a link to a file outside the stores.
        let look = !immutable
            || !sources.stores.contain_file(sources.fs, path.as_ref())
            || !self.is_for_all(path.as_ref());
        Ok(Some((path, look)))
    }

    /// Returns true if every user may open the file at a path. Otherwise the module checks the file
    /// before it answers, because the loader skips a file that it may not open, but an answer ends
    /// its search.
    fn is_for_all(&self, path: &BStr) -> bool {
        self.sources.fingerprints.is_for_all(path)
    }

    /// Returns the common object, with the answers of the loader cache for objects without a run
    /// path. Each name of the cache occurs once. `is_outside` returns true if no directory of any
    /// object's run path has a name.
    #[must_use]
    pub fn common(&self, is_outside: impl Fn(&BStr) -> bool) -> Object {
        let mut object = Object::default();
        let Some(Cache { cache: Some(cache), .. }) = &self.cache else { return object };
        let mut names: Vec<&BStr> = cache.entries().map(|entry| entry.soname).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let mut lookup = Lookup { resolver: self, name, conditions: Vec::new() };
            if let Ok(Some((path, look))) = lookup.ask_cache(false) {
                let (outside, conditions) = (is_outside(name), once(lookup.conditions));
                object.edges.push(Edge { path, look, outside, conditions, ..Edge::default() });
            }
        }
        object
    }

    /// Returns the directories of a run path. `None` in place of the first element that depends on
    /// the process ends the list.
    fn directories(&self, path: &BStr, run_path: &RunPath<'_>) -> Vec<Option<Rc<Dir>>> {
        let origin = path::dir(path).to_owned();
        let mut dirs: Vec<Option<Rc<Dir>>> = Vec::new();
        for element in run_path.value.split_str(":").map(BStr::new) {
            // The loader would expand an answer with a dollar sign again.
            let name = fixed_dir(element, origin.as_ref()).filter(|name| !name.contains(&b'$'));
            let is_fixed = name.is_some();
            dirs.push(name.map(|name| self.dir(name)));
            if !is_fixed {
                break;
            }
        }
        dirs
    }

    fn dir(&self, name: BString) -> Rc<Dir> {
        if let Some(known) = self.dirs.borrow().get(&name) {
            return Rc::clone(known);
        }
        let dir = Rc::new(self.look_at(name.clone()));
        self.dirs.borrow_mut().insert(name, Rc::clone(&dir));
        dir
    }

    fn look_at(&self, name: BString) -> Dir {
        let fs = self.sources.fs;
        let plain = without_slash(&name);
        let stores = self.sources.stores;
        let immutable = stores.contain(plain) && stores.contain_file(fs, plain);
        let fingerprints = self.sources.fingerprints;
        let may_come = || self.may_come(plain, immutable);
        let (is_there, condition) = match fs.stat(name.as_ref()) {
            Ok(FileKind::Directory) if immutable => (Ok(true), None),
            Ok(FileKind::Directory) => match fingerprints.directory(plain) {
                Some(known) => (Ok(true), Some(Condition::Directory(plain.to_owned(), known))),
                None => (Err(Deferred::Unsettled), None),
            },
            Err(Errno::NOENT) => (Ok(false), may_come()),
            // It is not a directory, and in a store this cannot change.
            Ok(_) | Err(Errno::NOTDIR | Errno::LOOP) if immutable => (Ok(false), may_come()),
            _ => (Err(Deferred::Candidate), None),
        };
        let exists = is_there == Ok(true);
        let variants = exists.then(|| Variants::of(fs, name.as_ref(), self.sources.ident, None));
        let variants = variants.unwrap_or_default();
        let in_store = immutable.then(|| {
            if !exists {
                return Condition::AbsentPackage(plain.to_owned());
            }
            // If it changes just now, this never holds.
            let known = fingerprints.directory(plain).unwrap_or_default();
            Condition::StoreDirectory(plain.to_owned(), known)
        });
        let plain = Arc::new(plain.to_owned());
        let (in_store, condition) = (in_store.map(Arc::new), condition.map(Arc::new));
        Dir { name, plain, immutable, in_store, is_there, condition, variants }
    }

    /// Returns the condition that a missing directory stays missing. A package that exists keeps
    /// its content; a missing package may appear later as a whole. So may any directory if its
    /// package cannot be determined.
    fn may_come(&self, dir: &BStr, immutable: bool) -> Option<Condition> {
        if !immutable {
            return Some(Condition::Absent(dir.to_owned()));
        }
        let has_package = |store: &BStr| {
            let Some(below) = below(dir, store) else { return false };
            // With a trailing slash, [`is_in_package`] accepts the package itself.
            let package = below.split_once_str("/").map_or(below, |(package, _)| package);
            let place = path::join(store, package);
            is_in_package(&[package, b"/"].concat())
                && self.sources.fs.stat(place.as_ref()) == Ok(FileKind::Directory)
        };
        let is_settled = self.sources.stores.iter().any(has_package);
        (!is_settled).then(|| Condition::AbsentPackage(dir.to_owned()))
    }
}

/// Leaves out repeated conditions.
fn once(mut conditions: Vec<Arc<Condition>>) -> Vec<Arc<Condition>> {
    let mut seen = FxHashSet::default();
    conditions.retain(|condition| seen.insert(Arc::clone(condition)));
    conditions
}

/// One lookup and the conditions of its answer.
struct Lookup<'q, 'a> {
    resolver: &'q Resolver<'a>,
    name: &'q BStr,
    conditions: Vec<Arc<Condition>>,
}

impl Lookup<'_, '_> {
    fn ask(
        &mut self,
        dirs: &[Option<Rc<Dir>>],
        requester: Requester,
        leads: bool,
    ) -> Result<Edge, Deferred> {
        if self.name.is_empty() || self.name.find_byteset(b"/$").is_some() {
            return Err(Deferred::NoPlainName);
        }
        for source in requester.sources(false) {
            let found = match source {
                // No released loader has stored answers, and the module searches
                // `LD_LIBRARY_PATH` in each start.
                Source::StoredAnswers | Source::LibraryPath => None,
                Source::Rpath | Source::Runpath => match self.ask_dirs(dirs.iter().cloned())? {
                    // The `DT_RPATH`s of the objects above come next, which differ between
                    // processes.
                    None if !leads => return Err(Deferred::Ancestors),
                    found => found,
                },
                Source::LoaderCache => self.ask_cache(requester.no_default_dirs)?,
                Source::SystemDirs => {
                    let resolver = self.resolver;
                    let dirs = resolver.sources.facts.system_dirs.iter();
                    self.ask_dirs(dirs.map(|name| Some(resolver.dir(name.clone()))))?
                }
            };
            if let Some((path, look)) = found {
                let before_library_path = source == Source::Rpath;
                return Ok(Edge { path, look, before_library_path, ..Edge::default() });
            }
        }
        Err(Deferred::NotFound)
    }

    fn ask_dirs(&mut self, dirs: impl Iterator<Item = Option<Rc<Dir>>>) -> Step {
        for dir in dirs {
            let dir = dir.ok_or(Deferred::OpenElement)?;
            let found = self.ask_dir(&dir)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn ask_dir(&mut self, dir: &Dir) -> Step {
        let is_there = dir.is_there?;
        self.conditions.extend(dir.condition.clone());
        if !is_there {
            return Ok(None);
        }
        // A new file in a subdirectory does not change the fingerprint of a mutable directory.
        let may_come = !dir.immutable && dir.variants.any();
        if may_come || dir.variants.may_have(self.resolver.sources.fs, self.name) {
            return Err(Deferred::Hwcaps);
        }
        self.resolver.judge(dir.name.as_ref(), self.name, dir.immutable)
    }

    fn ask_cache(&mut self, no_default_dirs: bool) -> Step {
        let sources = &self.resolver.sources;
        // The path of the cache and the system directories are compiled into the loader.
        self.conditions.push(Arc::new(Condition::Loader(sources.loader.to_owned())));
        if sources.facts.cache_path.is_none() {
            return Ok(None);
        }
        let cache = self.resolver.cache.as_ref().ok_or(Deferred::Unsettled)?;
        self.conditions.push(Arc::clone(&cache.condition));
        if cache.of_cpus.contains(self.name) {
            return Err(Deferred::Hwcaps);
        }
        let path = cache.cache.as_ref().and_then(|c| c.lookup(self.name, &cache.query));
        let ignored = |path: &BStr| no_default_dirs && sources.facts.is_in_system_dirs(path);
        let Some(path) = path.filter(|path| !ignored(path)) else { return Ok(None) };
        // The module takes the last component of an answer as the needed string.
        let dir = path.strip_suffix(self.name.as_bytes()).filter(|dir| dir.ends_with(b"/"));
        let dir = dir.filter(|_| !path.contains(&b'$')).ok_or(Deferred::Candidate)?;
        let found = self.resolver.judge(dir.as_bstr(), self.name, sources.stores.contain(path))?;
        found.ok_or(Deferred::Candidate).map(Some)
    }
}

/// Returns true if the object always has the last component of this path as its name: from its
/// soname or, without one, from the file's only name.
///
/// If the object is already loaded under another name, the loader adds a name to it
/// (`elf/dl-load.c` `_dl_map_object_from_fd`). After a search that is the needed string, but after
/// an answer of an audit module only the path. A later requester of the needed string that cannot
/// find the file itself would then fail.
pub(super) fn goes_by(fs: &dyn FileSystem, file: &Arc<OpenedFile>, path: &BStr) -> bool {
    match file.object.as_ref().ok().and_then(|view| view.soname()) {
        Some(soname) => path::name(path) == soname,
        None => fs.canonicalize(path).is_ok_and(|real| path::name(&real) == path::name(path)),
    }
}

/// Returns true if every user may read the file.
pub(super) fn is_readable(file: &OpenedFile) -> bool {
    const READABLE_BY_ALL: u32 = 0o004;
    file.mode & READABLE_BY_ALL != 0
}

fn without_slash(dir: &BString) -> &BStr {
    match dir.strip_suffix(b"/") {
        Some(plain) if !plain.is_empty() => plain.as_bstr(),
        _ => dir.as_bstr(),
    }
}
