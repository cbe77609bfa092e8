//! Checks whether indexing the same stores again would give the same index, by the fingerprints in
//! it and without reading any object.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;

use becalm_core::index::{Condition, Fingerprint, Folder, Index, Object};
use becalm_host::index_store::OsFingerprints;
use becalm_host::path_table::path_table_is_current;
use bstr::{BStr, BString};

use crate::path::{dirs_of, path_of};

/// Returns the paths of the stores' own directories.
pub fn root_paths(index: &Index) -> Vec<PathBuf> {
    index.roots.iter().map(|root| path_of(root.path())).collect()
}

/// Returns the stores that were walked; all stores if that is not known.
pub fn stores(index: &Index) -> Vec<PathBuf> {
    let is_walked = |path: &BStr| index.folders.iter().any(|f| f.walked && f.path == path);
    let (walked, others): (Vec<&BStr>, Vec<&BStr>) =
        index.roots.iter().map(|root| root.path()).partition(|path| is_walked(path));
    let stores = if walked.is_empty() { others } else { walked };
    stores.into_iter().map(|path| path_of(path)).collect()
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
    holds(index, false)
}

/// True if a fingerprint of the index no longer matches. One that could not be taken, since the file had just changed
/// or its file system cannot be trusted with times, says nothing.
pub fn has_changed(index: &Index) -> bool {
    !holds(index, true)
}

/// Compares all fingerprints. `unknown` is the result for one that could not be taken.
fn holds(index: &Index, unknown: bool) -> bool {
    let fingerprints = OsFingerprints::default();
    let is_watched = |root: &BString| index.folders.iter().any(|f| f.walked && f.path == *root);
    let holds = |condition: &Arc<Condition>| match &**condition {
        Condition::Directory(path, known) if *known == Fingerprint::default() => {
            unknown || index.roots.contains(condition) && is_watched(path)
        }
        Condition::StoreDirectory(_, known) | Condition::File(_, known)
            if *known == Fingerprint::default() =>
        {
            unknown
        }
        condition => fingerprints.hold(condition),
    };
    let is_seen = |path: &BString, seen: u32| match seen {
        0 => unknown,
        seen => fingerprints.is_as_seen(path.as_ref(), seen),
    };
    let is_named = |object: &&Object| !object.path.is_empty();
    let is_as_it_was = |folder: &Folder| match (folder.walked, folder.digest) {
        // A folder that only contains other folders proves nothing.
        (false, Folder::UNKNOWN) => true,
        (true, Folder::UNKNOWN) => unknown,
        _ => fingerprints.is_as_it_was(folder),
    };
    index.conditions().into_iter().all(holds)
        && index.folders.iter().all(is_as_it_was)
        && index.objects.iter().filter(is_named).all(|object| is_seen(&object.path, object.seen))
        && index.programs.iter().all(|program| is_seen(&program.path, program.seen))
        && index.paths.as_ref().is_none_or(path_table_is_current)
}
