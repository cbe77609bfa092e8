//! Finds the answers for objects: the results of the search that are the same in every process.
//!
//! [`Resolver::object`] searches for each needed string of one object as the loader does for the
//! first object of a process that needs it. An answer is kept if it depends on immutable
//! directories, or on files that a condition can check. A lookup that depends on more (the CPU, an
//! ancestor's `DT_RPATH`, the current directory) is left to the loader.

mod cache;
mod listed;
mod search;
#[cfg(test)]
mod tests;

use bstr::{BStr, BString, ByteSlice};
use serde::Serialize;

use std::sync::Arc;

use super::{Condition, Edge, Fingerprint, Object, SearchDir, Time, hash};
use crate::elf::Ident;
use crate::facts::LoaderFacts;
use crate::fs::{Errno, FileSystem};
use crate::search::Stores;

pub use listed::name_in;
pub use search::Resolver;

/// Calls to `statx`, which [`FileSystem`] does not need.
pub trait Fingerprints {
    /// Returns the fingerprint of the file at a path, links followed.
    ///
    /// # Errors
    /// Returns the errno of `statx`.
    fn fingerprint(&self, path: &BStr) -> Result<Fingerprint, Errno>;

    /// Returns the hash of the names in a directory ([`Listing::hash`]), or 0 if it cannot be read.
    ///
    /// [`Listing::hash`]: super::volume::Listing::hash
    fn listing(&self, path: &BStr) -> u64;

    /// Returns the state of a directory for a condition: its fingerprint with its listing, or the
    /// listing alone if times prove nothing on its file system. Returns `None` if it changed a moment
    /// ago or cannot be read.
    fn directory(&self, path: &BStr) -> Option<Fingerprint> {
        let found = self.fingerprint(path).ok()?;
        let size = self.listing(path);
        if found.volume == 0 {
            return (size != 0).then(|| Fingerprint { size, ..Fingerprint::default() });
        }
        found.is_settled(self.now()).then_some(Fingerprint { size, ..found })
    }

    /// Returns true if every user may open the file or directory at a path, links followed: all may
    /// read it and search each directory on the way.
    fn is_for_all(&self, path: &BStr) -> bool;

    /// Returns the time when indexing began. Fingerprints just before it are not settled.
    fn now(&self) -> Time;
}

/// The inputs of an index.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// The files.
    pub fs: &'a dyn FileSystem,
    /// Their fingerprints.
    pub fingerprints: &'a dyn Fingerprints,
    /// The facts of the loader, with its cache and system directories.
    pub facts: &'a LoaderFacts,
    /// The path of that loader, as in `PT_INTERP`, and of others with the same facts, separated by
    /// `:`.
    pub loader: &'a BStr,
    /// A header of the indexed machine, from the program.
    pub ident: &'a Ident,
    /// The immutable directories.
    pub stores: &'a Stores,
}

/// The answers of a directory of a `DT_RPATH`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// The conditions of the answers.
    pub conditions: Vec<Arc<Condition>>,
    /// As in [`SearchDir::look`].
    pub look: bool,
    /// The names. The flag is true if the directory answers a lookup of the name for certain.
    pub names: Vec<(BString, bool)>,
}

/// The reason why a lookup is left to the loader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Deferred {
    /// The search does not find the file.
    NotFound,
    /// The run path has an element that depends on the process: the current directory, `$PLATFORM`
    /// or `$LIB`.
    OpenElement,
    /// A hwcaps subdirectory has the name, so the answer depends on the CPU.
    Hwcaps,
    /// The `DT_RPATH` of an object above the requester may come first.
    Ancestors,
    /// The loader rejects a candidate, or cannot open it for a reason that may go away.
    Candidate,
    /// A directory or the loader cache changed too recently for a condition.
    Unsettled,
    /// The needed string is a path or contains a DST.
    NoPlainName,
    /// The object's own name differs from the file name.
    OtherName,
}

impl Listed {
    /// Returns the directory as an index has it.
    #[must_use]
    pub fn search_dir(self, path: BString) -> SearchDir {
        let Self { conditions, look, names } = self;
        let names =
            names.iter().map(|(name, is_certain)| hash::NameHash::of(name.as_ref(), *is_certain));
        let mut names: Vec<hash::NameHash> = names.collect();
        names.sort_unstable();
        SearchDir { path, conditions, look, names }
    }
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

    /// Returns the number of lookups in [`Object::deferred`] with this reason.
    #[must_use]
    pub fn count(self, deferred: &[u8; 8]) -> usize {
        usize::from(deferred[self as usize])
    }

    fn add(self, deferred: &mut [u8; 8]) {
        let count = &mut deferred[self as usize];
        *count = count.saturating_add(1);
    }
}

/// Returns true if a path inside a store begins with `<hash>-<name>/`, where the hash has 32
/// letters and digits (both nixpkgs and Guix write 160 bits in base 32). Only whole entries are
/// added to and removed from such a store.
#[must_use]
pub fn is_in_package(path: &[u8]) -> bool {
    const HASH: usize = 32;
    let Some((package, _)) = path.split_once_str("/") else { return false };
    package.len() > HASH + 1
        && package[HASH] == b'-'
        && package[..HASH].iter().all(u8::is_ascii_alphanumeric)
}
