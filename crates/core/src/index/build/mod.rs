//! Objects → their answers: what the search gives, as far as that can be said without
//! knowing the process.
//!
//! [`Resolver::object`] takes one object and asks each of its needed strings as the loader
//! would for the first object of a process that needs it. An answer is kept where it rests
//! on immutable directories, or on things a guard can watch; where the search depends on
//! more (the CPU, an ancestor's `DT_RPATH`, the current directory), the question is left to
//! the loader.

mod listed;
mod search;
#[cfg(test)]
mod tests;

use bstr::{BStr, BString, ByteSlice};
use rustc_hash::FxHashMap;

use std::sync::Arc;

use super::{
    Condition, Directory, Edge, Fingerprint, Folder, Index, Loader, Object, Program, SearchDir,
    Time, hash,
};
use crate::elf::{Ident, ObjectView, dlopen_entries};
use crate::facts::{Libc, LoaderFacts};
use crate::fs::{Errno, FileSystem};
use crate::loader::glibc::run_path::RunPath;
use crate::search::Stores;

pub use listed::name_in;
pub use search::Resolver;

/// `statx`, which [`FileSystem`] has no need of.
pub trait Fingerprints {
    /// The stamp of what the path names, links followed.
    ///
    /// # Errors
    /// The errno of `statx`.
    fn fingerprint(&self, path: &BStr) -> Result<Fingerprint, Errno>;

    /// True if every user may open the file or directory at a path, links followed: it may be read, and
    /// each directory on the way searched, by all.
    fn is_for_all(&self, path: &BStr) -> bool;

    /// The time to hold stamps against: the clock when the indexing began.
    fn now(&self) -> Time;
}

/// The inputs of an index.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// The files.
    pub fs: &'a dyn FileSystem,
    /// Their stamps.
    pub fingerprints: &'a dyn Fingerprints,
    /// The facts of the loader whose cache and system directories count.
    pub facts: &'a LoaderFacts,
    /// That loader, as programs name it (`PT_INTERP`), and others whose facts are the same,
    /// `:` between them.
    pub loader: &'a BStr,
    /// A header of the machine that is indexed for, its program's.
    pub ident: &'a Ident,
    /// The immutable directories.
    pub stores: &'a Stores,
}

/// An object with its answers, guards still by value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedObject {
    /// The object; its edges' `conditions` are empty.
    pub object: Object,
    /// The guards of each edge.
    pub conditions: Vec<Vec<Condition>>,
    /// The directories of its run path, without trailing slashes; [`Object::searched`] is
    /// empty.
    pub searched: Vec<Arc<BString>>,
    /// These are all the directories of its `DT_RPATH`.
    pub has_rpath: bool,
}

/// The answers of a directory of a `DT_RPATH`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// The conditions of the answers.
    pub conditions: Vec<Condition>,
    /// As in [`SearchDir::look`].
    pub look: bool,
    /// Its names; true for one that answers for certain.
    pub names: Vec<(BString, bool)>,
}

/// Why a question is left to the loader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Deferred {
    /// Nothing answers it.
    NotFound,
    /// The run path holds an element that depends on the process: the current directory,
    /// `$PLATFORM`, `$LIB`.
    OpenElement,
    /// A hwcaps subdirectory has the name: the answer is the CPU's.
    Hwcaps,
    /// A `DT_RPATH` of who loads the object may answer first.
    Ancestors,
    /// A candidate that the loader refuses, or cannot open for a reason that may pass.
    Candidate,
    /// A directory or the loader cache changed too recently to be watched.
    Unsettled,
    /// The needed string is a path, or has tokens in it.
    NoPlainName,
    /// The file is another name of an object that calls itself differently.
    OtherName,
}

impl Deferred {
    /// Each reason once.
    pub const ALL: [Deferred; 8] = [
        Deferred::NotFound,
        Deferred::OpenElement,
        Deferred::Hwcaps,
        Deferred::Ancestors,
        Deferred::Candidate,
        Deferred::Unsettled,
        Deferred::NoPlainName,
        Deferred::OtherName,
    ];

    /// How many questions [`Object::deferred`] says were left for this reason.
    #[must_use]
    pub fn count(self, deferred: &[u8; 8]) -> usize {
        usize::from(deferred[self as usize])
    }

    fn add(self, deferred: &mut [u8; 8]) {
        let count = &mut deferred[self as usize];
        *count = count.saturating_add(1);
    }
}

/// True where a path inside a store begins with `<hash>-<name>/`, the hash being 32 letters
/// and digits (nixpkgs and Guix both take base 32 of 160 bits): what comes and goes in such a
/// store is an entry of the store itself.
#[must_use]
pub fn is_in_package(path: &[u8]) -> bool {
    const HASH: usize = 32;
    let Some((package, _)) = path.split_once_str("/") else { return false };
    package.len() > HASH + 1
        && package[HASH] == b'-'
        && package[..HASH].iter().all(u8::is_ascii_alphanumeric)
}

/// Gathers objects into an index.
#[derive(Default)]
pub struct Gatherer {
    index: Index,
    conditions: FxHashMap<Condition, u32>,
    folders: FxHashMap<BString, u32>,
    search_dirs: FxHashMap<BString, u32>,
}

impl Gatherer {
    /// Adds an object.
    pub fn object(&mut self, resolved: ResolvedObject) {
        let mut object = resolved.object;
        object.searched = resolved.searched.iter().map(|dir| self.folder_at(dir)).collect();
        let rpath = resolved.searched.iter().map(|dir| self.search_dirs.get(&**dir).copied());
        object.rpath = if resolved.has_rpath { rpath.collect() } else { None };
        for (edge, conditions) in object.edges.iter_mut().zip(resolved.conditions) {
            edge.conditions =
                conditions.into_iter().map(|condition| self.condition(condition)).collect();
            edge.conditions.sort_unstable();
            edge.conditions.dedup();
        }
        self.index.objects.push(object);
    }

    /// Adds a directory of a `DT_RPATH`; before the objects that have it.
    pub fn search_dir(&mut self, path: &BString, listed: Listed) {
        let Listed { conditions, look, names } = listed;
        let mut conditions: Vec<u32> =
            conditions.into_iter().map(|condition| self.condition(condition)).collect();
        conditions.sort_unstable();
        let names =
            names.iter().map(|(name, is_certain)| hash::NameHash::of(name.as_ref(), *is_certain));
        let mut names: Vec<hash::NameHash> = names.collect();
        names.sort_unstable();
        self.search_dirs.insert(path.clone(), self.index.search_dirs.len() as u32);
        self.index.search_dirs.push(SearchDir { path: path.clone(), conditions, look, names });
    }

    /// Adds a directory that `LD_LIBRARY_PATH` may name, with its [`Directory::names`].
    pub fn snapshot(
        &mut self,
        path: BString,
        fingerprint: Fingerprint,
        names: Vec<hash::NameHash>,
    ) {
        let condition = self.condition(Condition::Directory(path.clone(), fingerprint));
        self.index.directories.push(Directory { path, condition, names: Some(names) });
    }

    /// Says what a folder was like; [`Folder::digest`].
    pub fn folder(&mut self, path: &BString, digest: u32, walked: bool) {
        let at = self.folder_at(path) as usize;
        let folder = &mut self.index.folders[at];
        (folder.digest, folder.walked) = (digest, walked);
    }

    /// The position of a folder, of which nothing else is known yet where it is new.
    fn folder_at(&mut self, path: &BString) -> u32 {
        if let Some(&at) = self.folders.get(path) {
            return at;
        }
        let at = self.index.folders.len() as u32;
        let unknown = Folder { path: path.clone(), digest: Folder::UNKNOWN, walked: false };
        self.index.folders.push(unknown);
        self.folders.insert(path.clone(), at);
        at
    }

    /// Adds a store's own directory, whose stamp says whether packages came or went.
    pub fn root(&mut self, path: BString, fingerprint: Fingerprint) {
        let condition = self.condition(Condition::Directory(path, fingerprint));
        self.index.roots.push(condition);
    }

    /// Adds a program.
    pub fn program(&mut self, program: Program) {
        self.index.programs.push(program);
    }

    /// The index, given [`Index::settings`] and the facts of the loaders at `paths`.
    #[must_use]
    pub fn finish(mut self, settings: u32, paths: &BStr, facts: &LoaderFacts) -> Index {
        self.index.settings = settings;
        if let Libc::Glibc(release) = facts.libc {
            let LoaderFacts { cache_path, system_dirs, hwcaps, platform, lib, .. } = facts.clone();
            let paths = paths.to_owned();
            self.index.loader =
                Some(Loader { paths, release, cache_path, system_dirs, hwcaps, platform, lib });
        }
        self.index
    }

    /// Adds a guard, once; gives its position.
    pub fn condition(&mut self, condition: Condition) -> u32 {
        let next = self.index.conditions.len() as u32;
        let conditions = &mut self.index.conditions;
        *self.conditions.entry(condition).or_insert_with_key(|condition| {
            conditions.push(condition.clone());
            next
        })
    }
}

/// [`Object::run_path`] of a run path.
fn digest(run_path: &RunPath<'_>) -> u32 {
    hash::run_path_digest(run_path.value, run_path.is_rpath, run_path.no_default_dirs)
}

/// Returns the names that an object may look up: its dependencies, then the names of its
/// `.note.dlopen`, each once.
fn lookups(view: &ObjectView) -> Vec<BString> {
    let needed = view.dynamic.iter().flat_map(|dynamic| &dynamic.dependencies);
    let mut names: Vec<BString> = needed.map(|dependency| dependency.name.clone()).collect();
    let at_run_time = dlopen_entries(&view.notes.dlopen);
    names.extend(at_run_time.into_iter().flat_map(|entry| entry.soname).map(BString::from));
    let mut seen = rustc_hash::FxHashSet::default();
    names.retain(|name| seen.insert(name.clone()));
    names
}

/// An edge without its guards.
fn edge(path: BString) -> Edge {
    Edge { path, before_library_path: false, outside: false, look: false, conditions: Vec::new() }
}
