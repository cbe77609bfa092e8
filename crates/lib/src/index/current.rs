//! Checks whether indexing the same stores again would give the same index, by the fingerprints in
//! it and without reading any object.

use std::ffi::OsStr;
use std::path::PathBuf;

use becalm_core::index::{Condition, Fingerprint, Folder, Index, Object};
use becalm_host::index_store::OsFingerprints;
use bstr::{BStr, BString};

use crate::index::paths;
use crate::path::{dirs_of, path_of};

/// Returns the conditions of the stores' own directories.
pub fn roots(index: &Index) -> impl Iterator<Item = &Condition> {
    index.roots.iter().filter_map(|&root| index.conditions.get(root as usize))
}

/// Returns the stores that were walked; all stores if that is not known.
pub fn stores(index: &Index) -> Vec<PathBuf> {
    let is_walked = |path: &BStr| index.folders.iter().any(|f| f.walked && f.path == path);
    let (walked, others): (Vec<&BStr>, Vec<&BStr>) =
        roots(index).map(Condition::path).partition(|path| is_walked(path));
    let stores = if walked.is_empty() { others } else { walked };
    stores.into_iter().map(path_of).collect()
}

/// Returns the directories that were snapshotted for `LD_LIBRARY_PATH`.
pub fn snapshotted(index: &Index) -> Vec<PathBuf> {
    let named = index.directories.iter().filter(|directory| directory.names.is_some());
    named.map(|directory| path_of(directory.path.as_ref())).collect()
}

/// Returns the directories of a list as in `LD_LIBRARY_PATH` that are not snapshotted. The loader
/// searches them.
#[must_use]
pub fn not_snapshotted(index: &Index, list: &OsStr) -> Vec<PathBuf> {
    let known = snapshotted(index);
    let mut dirs = dirs_of(&[list]);
    dirs.retain(|dir| !known.contains(dir));
    dirs
}

/// True if every fingerprint of the index still matches, those of the objects included, and each
/// store has one: that of its directory if packages are added to and removed from it, else those of
/// everything in it.
pub fn is_current(index: &Index) -> bool {
    let fingerprints = OsFingerprints::default();
    let zero = Fingerprint::default();
    let is_watched = |root: &BString| index.folders.iter().any(|f| f.walked && f.path == *root);
    let is_root = |at: usize| index.roots.contains(&(at as u32));
    let holds = |(at, condition): (usize, &Condition)| match condition {
        Condition::Directory(path, fingerprint) if is_root(at) && *fingerprint == zero => {
            is_watched(path)
        }
        condition => fingerprints.hold(condition),
    };
    let is_seen = |path: &BString, seen: u32| fingerprints.is_as_seen(path.as_ref(), seen);
    let is_named = |object: &&Object| !object.path.is_empty();
    // A folder that only contains other folders proves nothing.
    let counts = |folder: &&Folder| folder.walked || folder.digest != Folder::UNKNOWN;
    index.conditions.iter().enumerate().all(holds)
        && index.folders.iter().filter(counts).all(|folder| fingerprints.is_as_it_was(folder))
        && index.objects.iter().filter(is_named).all(|object| is_seen(&object.path, object.seen))
        && index.programs.iter().all(|program| is_seen(&program.path, program.seen))
        && index.paths.as_ref().is_none_or(paths::is_current)
}
