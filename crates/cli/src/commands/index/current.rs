//! Whether an index still says what indexing the same stores again would give: by the stamps
//! it holds, without a look at any object.

use std::path::PathBuf;

use becalm_core::fs::Errno;
use becalm_core::index::build::Stamps;
use becalm_core::index::{Guard, Index, Stamp};
use becalm_host::index_store::OsStamps;
use bstr::BString;

use super::path_of;

/// The guards of the stores' own directories.
pub(crate) fn roots(index: &Index) -> impl Iterator<Item = &Guard> {
    index.roots.iter().filter_map(|&root| index.guards.get(root as usize))
}

/// The directories that were snapshotted for `LD_LIBRARY_PATH`.
pub(super) fn snapshotted(index: &Index) -> Vec<PathBuf> {
    let named = index.directories.iter().filter(|directory| directory.names.is_some());
    named.map(|directory| path_of(directory.path.as_ref())).collect()
}

/// True where every stamp of the index holds, and one stands for each store: the directory
/// itself where packages come and go in it, else all that hold objects.
pub(super) fn is_current(index: &Index) -> bool {
    let stamps = OsStamps::default();
    let zero = Stamp::default();
    let watched = |root: &BString| index.directories.iter().any(|dir| dir.path == *root);
    let is_root = |at: usize| index.roots.contains(&(at as u32));
    index.guards.iter().enumerate().all(|(at, guard)| match guard {
        Guard::Directory(path, stamp) if is_root(at) && *stamp == zero => watched(path),
        guard => holds(guard, &stamps),
    })
}

/// As the module looks at it (`audit/guard.c` `look`). Whose loader a process has, only the
/// process knows.
pub(crate) fn holds(guard: &Guard, stamps: &OsStamps) -> bool {
    match guard {
        Guard::Directory(path, stamp) => {
            stamps.stamp(path.as_ref()).is_ok_and(|now| now == Stamp { size: now.size, ..*stamp })
        }
        Guard::File(path, stamp) => stamps.stamp(path.as_ref()) == Ok(*stamp),
        Guard::Absent(path) => stamps.stamp(path.as_ref()) == Err(Errno::NOENT),
        Guard::Loader(_) => true,
    }
}
