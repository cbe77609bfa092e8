//! Removes files that becalm made: directories of links, loader caches, indexes, and the
//! directories that were made for them.

use std::fs::{self, ReadDir};
use std::iter;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use becalm_core::strategy::farm;
use becalm_host::write::{Existing, has_mode_of_made};
use rustc_hash::FxHashSet;

use crate::path::{path_bytes, path_of};
use crate::writing::making::{is_our_farm, lies_in_farms, made_above, settle};
use crate::writing::{Changed, Editor, Outcome, reason};

/// Removes files that becalm made, and records the outcome of each.
pub(crate) struct Remover<'a> {
    editor: &'a Editor<'a>,
    /// The outcome of each path; a path that did not exist is left out.
    pub(crate) removed: Vec<Changed>,
}

impl<'a> Remover<'a> {
    /// Makes a remover that writes by `editor`.
    pub(crate) fn new(editor: &'a Editor<'a>) -> Self {
        Self { editor, removed: Vec::new() }
    }

    /// Removes a file or a directory of links if becalm made it, and then the directories made for
    /// it that are empty.
    pub(crate) fn remove(&mut self, path: &Path, ours: impl FnOnce(&Existing) -> bool) {
        let mut parents = Vec::new();
        let result = match (self.editor.dry_run, self.editor.is_interrupted()) {
            (_, true) => Ok(Outcome::NotReached),
            (true, _) => Ok(Outcome::Written { old_length: 0, new_length: 0 }),
            _ => {
                // Marked before the removal, so that a crash in between leaves directories that a later run
                // recognises.
                parents = self.mark_parents(path);
                self.editor.writer.remove_made(path, ours).map(|removed| match removed {
                    true => Outcome::Written { old_length: 0, new_length: 0 },
                    false => Outcome::Unchanged,
                })
            }
        };
        let outcome = result.unwrap_or_else(|error| Outcome::refused(reason(&error, path)));
        if outcome != Outcome::Unchanged {
            self.removed.push(Changed::of(path_bytes(path), outcome));
        }
        if !self.editor.dry_run {
            self.remove_empty_parents(path, &parents);
        }
    }

    /// Removes a farm, the farms that it is split into, and its list of changed objects.
    pub(crate) fn remove_farm(&mut self, farm: &Path) {
        let parts = folders_in(farm);
        let list = list_of(farm).filter(|list| list.is_dir());
        let whole = if parts.is_empty() { vec![farm.to_owned()] } else { parts };
        for dir in whole.into_iter().chain(list) {
            self.remove(&dir, |existing| is_our_farm(&dir, existing));
        }
    }

    /// Removes the farms below a directory that an interrupted run made and no object names: all
    /// that are not `in_use`.
    pub(crate) fn sweep(&mut self, dir: &Path, in_use: &FxHashSet<PathBuf>) {
        for below in folders_in(dir) {
            self.sweep(&below, in_use);
        }
        let is_free = lies_in_farms(dir) && !in_use.contains(dir) && dir.is_dir();
        let path = path_bytes(dir);
        let is_removed = || self.removed.iter().any(|removed| removed.path == path);
        if is_free && folders_in(dir).is_empty() && !is_removed() {
            self.remove(dir, |existing| is_our_farm(dir, existing));
        }
    }

    /// Removes an empty directory for farms or other creations.
    pub(crate) fn remove_if_empty(&self, dir: &Path) {
        if !self.editor.dry_run {
            // A directory that cannot be removed does no harm.
            let _ = self.editor.writer.remove_empty_dir(dir);
            settle(self.editor, iter::once(dir));
        }
    }

    /// Marks the directories that contain only `path` and are removed with it: after a crash, the
    /// next run recognises them by the marker. Returns them.
    ///
    /// Directories that becalm made have its mode, and the owner of what it made in them. Others existed
    /// before.
    fn mark_parents(&self, path: &Path) -> Vec<PathBuf> {
        let mut parents = Vec::new();
        let owner = |path: &Path| path.symlink_metadata().map(|about| about.uid()).ok();
        let mut held = path;
        for dir in made_above(path) {
            let holds_more = |entries: ReadDir| entries.flatten().any(|it| it.path() != held);
            let is_made = has_mode_of_made(dir) && owner(dir) == owner(path);
            if !is_made || fs::read_dir(dir).map_or(true, holds_more) {
                break;
            }
            // If this fails, an empty directory may remain.
            let _ = self.editor.writer.unsettle_dir(dir);
            parents.push(dir.to_owned());
            held = dir;
        }
        parents
    }

    /// Removes the directories that were made for a removed file, and are empty now: up to the
    /// directory of farms or of the cache in its package.
    fn remove_empty_parents(&self, path: &Path, parents: &[PathBuf]) {
        for dir in parents.iter().take_while(|_| !self.editor.is_interrupted()) {
            // Not empty: it has other files.
            if !self.editor.writer.remove_empty_dir(dir).unwrap_or(false) {
                break;
            }
        }
        settle(self.editor, made_above(path));
    }
}

/// Returns the path of the list of objects that were changed to name a farm.
pub(crate) fn list_of(farm: &Path) -> Option<PathBuf> {
    let list = farm::list_of(path_bytes(farm).as_ref())?;
    Some(path_of(&list))
}

pub(crate) fn folders_in(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    // A link to a folder is left out, because it may lead to another package.
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(|entry| entry.path()).collect()
}
