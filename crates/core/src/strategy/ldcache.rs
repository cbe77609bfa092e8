//! The `ldcache` strategy: writes an `etc/ld.so.cache` at the root of each package.
//!
//! One table answers for every object of the package that has a run path. A name is entered only if
//! all objects that need it find the same file, and no directory that may change is searched before
//! it. A program can also look up any other name, by `dlopen` or by a preload. The loader then accepts
//! an answer in a directory of the requester's run path, so that the objects with this directory must
//! find the same file as well. The loader reads the table before the requester's run path. It searches
//! for a name that the table lacks as before.

use std::collections::BTreeMap;

use bstr::{BStr, BString, ByteSlice};
use rustc_hash::FxHashSet;

use super::applied::{Applied, Verdict};
use super::note::{opened, reason_to_skip};
use super::own::{self, OwnDir, OwnPath, Standing};
use super::plan::{Created, FilePlan, Finding, FindingKind, Plan, PlannedAnswer};
use super::row::{PackageFile, Row, Unit};
use super::settings::Settings;
use crate::closure::{Closure, Subject};
use crate::elf::Ident;
use crate::facts::Format;
use crate::fs::{Added, FileId, FileSystem};
use crate::loader::load::{LoadedObject, Role};
use crate::path;
use crate::search::loader_cache::write::entry_flags;
use crate::search::loader_cache::{LoaderCache, NewEntry, write};

/// The text of the generator section, by which becalm recognises its own caches.
pub(crate) const GENERATOR: &str = "becalm";

/// The cache of a package.
const CACHE: PackageFile = PackageFile { below: "etc/ld.so.cache", is_ours };

/// The row of `ldcache`.
pub const ROW: Row = Row {
    unit: Unit::Package(plan),
    format: Some(Format::PackageCaches),
    file: Some(CACHE),
    verify,
    unnamed,
};

/// Plans the caches of the objects' packages. All objects of a package must be given, because the
/// answers of a missing one are not compared.
///
/// The needed strings of all objects that a program of `closures` loads are added to the cache of the
/// program's package. Guix's loader uses this cache for every object of a process
/// (`$ORIGIN/../etc/ld.so.cache`).
#[must_use]
pub fn plan(
    fs: &dyn FileSystem,
    subjects: &[Subject],
    closures: &[&Closure],
    settings: &Settings,
) -> Plan {
    let mut parts = Vec::new();
    let mut packages: BTreeMap<BString, Package<'_>> = BTreeMap::new();
    for subject in subjects {
        let path = super::real_path(fs, subject.path.as_ref());
        if let Some(what) = reason_to_skip(subject) {
            parts.push(Plan::only(path.as_ref(), what));
            continue;
        }
        let Some(root) = settings.stores.package_of(path.as_ref()).map(ToOwned::to_owned) else {
            parts.push(Plan::only(path.as_ref(), FindingKind::OutsideStores));
            continue;
        };
        let package = packages.entry(root).or_insert_with(|| Package {
            fs,
            settings,
            target: None,
            answers: BTreeMap::new(),
            files: Vec::new(),
            run_paths: Vec::new(),
            known: FxHashSet::default(),
        });
        parts.push(package.add(path, subject));
    }
    for closure in closures {
        let path = super::real_path(fs, closure.subject.path.as_ref());
        let root = settings.stores.package_of(path.as_ref());
        if let Some(package) = root.and_then(|root| packages.get_mut(&root.to_owned())) {
            package.add_closure(closure);
        }
    }
    // Only now are the answers of all objects of a package known.
    for (root, package) in packages {
        parts.extend(package.finish(root));
    }
    Plan::gather(parts)
}

/// The needed strings of one package's objects, by ABI.
struct Package<'a> {
    fs: &'a dyn FileSystem,
    settings: &'a Settings,
    target: Option<Ident>,
    /// The answers by flags and name. A name with `Err` must not be entered.
    answers: BTreeMap<(i32, BString), Result<Entered, FindingKind>>,
    files: Vec<(FilePlan, i32)>,
    /// The run paths of the objects, each once for an ABI, with its first object.
    run_paths: Vec<(BString, i32, OwnPath<'a>)>,
    known: FxHashSet<(i32, Vec<OwnDir>)>,
}

/// The answer to a name.
struct Entered {
    path: BString,
    id: FileId,
    /// The file's own `$ORIGIN`: its directory, links resolved.
    origin: BString,
}

impl Entered {
    /// Returns a conflict, unless it is the same file with the same `$ORIGIN`, which finds the same
    /// libraries.
    fn conflict(&self, other: &Self) -> Option<FindingKind> {
        let is_same = self.id == other.id && self.origin == other.origin;
        let (one, other) = (self.path.clone(), other.path.clone());
        (!is_same).then_some(FindingKind::TwoAnswers { one, other })
    }
}

impl<'a> Package<'a> {
    /// Adds an object. Returns its findings.
    fn add(&mut self, path: BString, subject: &Subject) -> Plan {
        let ident = subject.view.ident;
        let target = self.target.get_or_insert(ident);
        // A cache has one byte order, which its header names.
        if target.endian != ident.endian {
            return Plan::only(path.as_ref(), FindingKind::OtherByteOrder);
        }
        let own = OwnPath::new(self.fs, subject, self.settings);
        if !own::has_run_path_entry(&subject.view) {
            // The loader reads the cache only for objects with a run path, which may be empty.
            return Plan::only(path.as_ref(), FindingKind::NoRunPath);
        }
        let mut plan = Plan::default();
        let flags = entry_flags(&ident);
        let mut answers = Vec::new();
        for needed in own::names(&subject.view, &self.settings.dlopen) {
            let found = self.entry(&own, needed.as_ref());
            if let Err(what) = &found {
                plan.findings.push(Finding::of(&path, &needed, what.clone()));
            }
            answers.push(PlannedAnswer { needed: needed.clone(), ..PlannedAnswer::default() });
            own::agree(&mut self.answers, (flags, needed), found, Entered::conflict);
        }
        if self.known.insert((flags, own.dirs.clone())) {
            self.run_paths.push((path.clone(), flags, own));
        }
        self.files.push((FilePlan { path, edits: Vec::new(), answers }, flags));
        plan
    }

    /// Adds the needed strings of a program's libraries, with the answers of the program's start.
    fn add_closure(&mut self, closure: &Closure) {
        for (index, object) in closure.load.objects.iter().enumerate() {
            if object.role != Role::Library || object.namespace != 0 {
                continue;
            }
            let Ok(subject) = Subject::open(self.fs, object.path.as_ref()) else { continue };
            let own = OwnPath::new(self.fs, &subject, self.settings);
            let flags = entry_flags(&subject.view.ident);
            for (needed, loaded) in own::searched(&closure.load, index) {
                let found = match (self.entry(&own, needed.as_ref()), loaded) {
                    // Guix's loader uses the cache of the program's package for libraries too.
                    (Err(FindingKind::NotByRunPath), Some(loaded)) if self.stays(loaded) => {
                        self.entered(loaded.path.clone())
                    }
                    (found, _) => found,
                };
                let key = (flags, needed.clone());
                own::agree(&mut self.answers, key, found, Entered::conflict);
            }
        }
    }

    /// Returns true for a library of a start that is in a store and therefore cannot change.
    fn stays(&self, loaded: &LoadedObject) -> bool {
        let real = super::real_path(self.fs, loaded.path.as_ref());
        loaded.role == Role::Library && self.settings.stores.package_of(real.as_ref()).is_some()
    }

    fn entered(&self, path: BString) -> Result<Entered, FindingKind> {
        let file = opened(self.fs, &path)?;
        // Under two paths one file can have two values of `$ORIGIN`, and so other libraries.
        let origin = super::real_path(self.fs, path::dir(&path));
        Ok(Entered { path, id: file.id, origin })
    }

    /// Returns the answer of one object's run path if the cache may have it.
    fn entry(&self, own: &OwnPath<'_>, needed: &BStr) -> Result<Entered, FindingKind> {
        let (at, path) = own.hit(needed)?;
        let dir = &own.dirs[at];
        // A file may be added to a directory before the answer later.
        let mutable = match dir.standing {
            Standing::Searched => Some(dir),
            _ => own.dirs[..at].iter().find(|dir| dir.standing != Standing::Fixed),
        };
        match mutable {
            Some(dir) => Err(FindingKind::MutableBefore(dir.written.clone())),
            None => self.entered(path),
        }
    }

    /// Removes the answers that differ from those of another run path with the same directory. The
    /// loader would accept them for an object with this run path.
    fn leave_out_other_answers(&mut self) -> Plan {
        let mut plan = Plan::default();
        let mut answers = std::mem::take(&mut self.answers);
        for ((flags, name), answer) in &mut answers {
            for (path, own_flags, own) in &self.run_paths {
                let Ok(found) = answer else { break };
                let dir = &found.path[..found.path.len() - name.len()];
                let is_searched = |own: &OwnDir| own.name.as_ref().is_some_and(|it| it == dir);
                // The loader accepts an answer for an object only in a directory of its run path
                // (`is_searched_for` of the model).
                if own_flags != flags || !own.dirs.iter().any(is_searched) {
                    continue;
                }
                let what = match self.entry(own, name.as_ref()) {
                    Ok(other) => found.conflict(&other),
                    Err(what) => {
                        plan.findings.push(Finding::of(path, name, what.clone()));
                        Some(what)
                    }
                };
                if let Some(what) = what {
                    *answer = Err(what);
                }
            }
        }
        self.answers = answers;
        plan
    }

    fn finish(mut self, root: BString) -> Vec<Plan> {
        let Some(target) = self.target else { return Vec::new() };
        let mut plan = self.leave_out_other_answers();
        let mut entered: BTreeMap<(i32, BString), BString> = BTreeMap::new();
        let path = CACHE.path_in(root.as_ref());
        for (key, answer) in self.answers {
            match answer {
                Ok(found) => {
                    entered.insert(key, found.path);
                }
                Err(what @ FindingKind::TwoAnswers { .. }) => {
                    plan.findings.push(Finding::of(&path, &key.1, what));
                }
                Err(_) => {}
            }
        }
        let mut parts = vec![plan];
        for (mut file, flags) in self.files {
            for answer in &mut file.answers {
                answer.exact = entered.get(&(flags, answer.needed.clone())).cloned();
            }
            parts.push(Plan::of_file(file));
        }
        let entries: Vec<NewEntry> = entered
            .into_iter()
            .map(|((flags, soname), path)| NewEntry { soname, path, flags, hwcaps_name: None })
            .collect();
        if entries.is_empty() {
            parts.push(Plan::only(root.as_ref(), FindingKind::NothingToSkip));
        } else if let Some(bytes) = write(&target, entries, GENERATOR) {
            parts.push(place(self.fs, root.as_ref(), path, bytes));
        }
        parts
    }
}

/// Plans the file, unless an equal file or a foreign one exists.
fn place(fs: &dyn FileSystem, root: &BStr, path: BString, bytes: Vec<u8>) -> Plan {
    if let Ok(there) = fs.read(path.as_ref()) {
        if there[..] == bytes[..] {
            return Plan::default();
        }
        if !is_ours(there) {
            return Plan::only(root, FindingKind::InTheWay(path));
        }
    }
    let dir: BString = [root.as_ref(), &b"/etc"[..]].concat().into();
    let mut creations = Vec::new();
    if fs.stat(dir.as_ref()).is_err() {
        creations.push(Created { path: dir, kind: Added::Directory });
    }
    creations.push(Created { path, kind: Added::File { bytes: bytes.into() } });
    Plan { creations, ..Plan::default() }
}

/// Returns true for the bytes of a cache that becalm made.
fn is_ours(bytes: std::sync::Arc<[u8]>) -> bool {
    use crate::elf::Endian::{Big, Little};
    [Little, Big].into_iter().any(|endian| {
        LoaderCache::parse(std::sync::Arc::clone(&bytes), endian)
            .is_some_and(|cache| cache.generator() == GENERATOR)
    })
}

/// Checks the entries of the package's cache.
fn verify(applied: &Applied<'_>) -> Vec<(BString, Verdict)> {
    let Some(cache) = cache_of(applied) else { return Vec::new() };
    let flags = entry_flags(&applied.subject.view.ident);
    let check = |name: &BString| {
        let mut entries = cache.entries();
        let entry = entries.find(|e| e.soname == name.as_bstr() && e.flags == flags)?;
        let says = applied.is_fit(entry.path).then(|| entry.path.to_owned());
        Some((name.clone(), applied.compare_skipping(name.as_ref(), says, |_| false)))
    };
    applied.names.iter().filter_map(check).collect()
}

fn cache_of(applied: &Applied<'_>) -> Option<LoaderCache> {
    let view = &applied.subject.view;
    if !own::has_run_path_entry(view) {
        return None;
    }
    let root = applied.settings.stores.package_of(applied.path.as_ref())?;
    LoaderCache::parse_for(applied.fs.read(CACHE.path_in(root).as_ref()).ok()?, &view.ident)
}

/// Returns the package of an object outside the named stores, if it has a cache of becalm.
fn unnamed(applied: &Applied<'_>) -> Option<BString> {
    let path = &applied.path;
    if !own::has_run_path_entry(&applied.subject.view) || applied.settings.stores.contain(path) {
        return None;
    }
    // The root of the package is not known without its store, so every parent directory is tried.
    let ends = path.rfind_iter("/").filter(|&end| end > 0);
    let is_cached = |package: &&[u8]| {
        applied.fs.read(CACHE.path_in(package.as_bstr()).as_ref()).is_ok_and(is_ours)
    };
    ends.map(|end| &path[..end]).find(is_cached).map(BString::from)
}
