//! Compares all files and directories of a pack with the tree. If they are as they were packed, the loader may map
//! libraries from the folder of the pack: whatever it finds beside them there is as in the tree, and so is what it
//! does not find.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use becalm_host::tree::look::{self, Changes, Identity};
use rustix::fs::CWD;

use crate::trees::packed::Pack;
use crate::trees::record::{Kind, RecordedPath};
use crate::trees::{c_path, complete, in_parallel, times_count};

/// True if every file that a pack has for a command is in the tree as it was packed, and no directory has other
/// names. From then on each change on this machine is an event.
pub(super) fn is_unchanged(pack: Pack, folder: &Path, command: &Path, changes: &Changes) -> bool {
    let Some(record) = pack.record(folder, command) else { return false };
    if !record.header.trees.iter().all(|tree| times_count(Path::new(tree))) {
        return false;
    }
    let files = record.paths.iter().filter_map(|it| Some((it, it.copy.as_ref()?.identity())));
    let files: Vec<_> = files.collect();
    let above = |path: &Path| path.parent().map(Path::to_owned);
    let parents = files.iter().filter_map(|(it, _)| above(Path::new(&it.path)));
    let parents: Vec<_> = parents.collect::<BTreeSet<_>>().into_iter().collect();
    let links = files.iter().filter(|(it, _)| it.kind == Kind::Link);
    let targets = links.filter_map(|(it, _)| above(&Path::new(&it.path).canonicalize().ok()?));
    let directories: BTreeSet<_> = targets.chain(parents.iter().cloned()).collect();
    let directories: Vec<_> = directories.into_iter().collect();
    let names =
        |it: &RecordedPath| Some((PathBuf::from(&it.path), it.state.as_ref()?.names.clone()?));
    let listed: BTreeMap<_, _> = record.paths.iter().filter_map(names).collect();
    let is_same = AtomicBool::new(true);
    let needs = |holds: Option<()>| {
        if holds.is_none() {
            is_same.store(false, Ordering::Relaxed);
        }
    };
    in_parallel(directories.len(), |at| {
        let directory = look::directory(CWD, &directories[at]);
        needs(directory.ok().and_then(|it| changes.watch(it.as_fd()).ok()));
    });
    // The watches are older than what is compared.
    in_parallel(parents.len(), |at| {
        let is_as_packed =
            |packed: &&Vec<String>| complete::names(&parents[at]).as_ref() == Some(*packed);
        needs(listed.get(&parents[at]).filter(is_as_packed).map(drop));
    });
    in_parallel(files.len(), |at| {
        let (file, identity) = &files[at];
        needs(is_there(Path::new(&file.path), identity, changes));
    });
    is_same.into_inner() && !changes.happened()
}

/// Looks at a file; `None` if it is another one. One that has several names is watched itself.
fn is_there(path: &Path, identity: &Identity, changes: &Changes) -> Option<()> {
    let path = c_path(path)?;
    let mut facts = look::at(CWD, &path, true).ok()?;
    if facts.stx_nlink > 1 {
        changes.watch(look::open(CWD, &path).ok()?.as_fd()).ok()?;
        facts = look::at(CWD, &path, true).ok()?;
    }
    let is_file = look::kind(&facts) == look::FILE;
    (is_file && Identity::of(&facts) == *identity).then_some(())
}
