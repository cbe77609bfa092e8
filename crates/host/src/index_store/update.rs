//! Updates an index: reads again only what has changed according to its fingerprints.
//!
//! An object keeps its answers if its file is unchanged, every directory that its search may enter
//! is unchanged (or still absent), and every condition of its answers holds. So a change is
//! detected wherever the search could see it. Unchanged folders are not listed, and unchanged files
//! are not opened.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use becalm_core::fs::Errno;
use becalm_core::index::build::{Deferred, Fingerprints};
use becalm_core::index::{Condition, Fingerprint, Folder, Index, Object, Program, Target};
use bstr::{BStr, BString, ByteSlice};
use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

use super::own_files;
use super::rpath::{ListedDirs, certain_paths};
use super::{
    Group, IndexOptions, Indexed, MachineIndex, OsFingerprints, Seen, Work, by_machine, elf_paths,
    immutable, kind_of, names_of, path_bytes, path_of, real,
};
use crate::{HostError, OsFs, WalkOptions, find_objects};

impl OsFingerprints {
    /// Returns true if a condition holds, by the rules of the module (`condition_holds` in
    /// `crates/audit/module/condition.c`). Conditions on the loader count as holding, because only the
    /// process knows its loader.
    #[must_use]
    pub fn hold(&self, condition: &Condition) -> bool {
        let fingerprint = |path: &BString| self.fingerprint(path.as_ref());
        match condition {
            Condition::Directory(path, known) | Condition::StoreDirectory(path, known) => {
                match fingerprint(path) {
                    Ok(now) if known.volume != 0 && now.volume == known.volume => {
                        now == Fingerprint { size: now.size, ..*known }
                    }
                    Ok(_) => known.size != 0 && self.listing(path.as_ref()) == known.size,
                    Err(_) => false,
                }
            }
            Condition::File(path, known) => fingerprint(path) == Ok(*known),
            // The files of a copied image have other inodes and change times.
            Condition::ImageDirectory(path, known) => {
                own_files::is_of_root(path.as_ref())
                    && fingerprint(path).is_ok_and(|now| now.mtime == known.mtime)
            }
            Condition::ImageFile(path, known) => {
                own_files::is_of_root(path.as_ref())
                    && fingerprint(path).is_ok_and(|now| now.of_image() == *known)
            }
            Condition::Absent(path) | Condition::AbsentPackage(path) => {
                fingerprint(path) == Err(Errno::NOENT)
            }
            Condition::Loader(_) => true,
        }
    }

    /// Does the same as [`Self::hold`] for a process with the loader `loader`.
    #[must_use]
    pub fn hold_for(&self, condition: &Condition, loader: &BStr) -> bool {
        match condition {
            Condition::Loader(paths) => paths.split_str(":").any(|path| path == loader),
            condition => self.hold(condition),
        }
    }

    /// Returns true if a folder is unchanged, or still absent.
    #[must_use]
    pub fn is_as_it_was(&self, folder: &Folder) -> bool {
        match (folder.digest, self.fingerprint(folder.path.as_ref())) {
            (Folder::UNKNOWN, _) => false,
            (Folder::ABSENT, now) => now == Err(Errno::NOENT),
            (digest, now) => now.is_ok_and(|now| Fingerprint { size: 0, ..now }.digest() == digest),
        }
    }

    /// Returns true if the file at `path` has the digest `seen` ([`Object::seen`]).
    #[must_use]
    pub fn is_as_seen(&self, path: &BStr, seen: u32) -> bool {
        // 0 marks a file that had changed just before it was indexed.
        seen != 0 && self.fingerprint(path).is_ok_and(|fingerprint| fingerprint.digest() == seen)
    }
}

/// Updates the index of one machine. Returns `None` if everything has to be read: the facts of the
/// loader, the loaders, the stores or becalm's version have changed.
#[must_use]
pub fn update_stores(
    os: &OsFs,
    old: &Index,
    target: Target,
    options: IndexOptions<'_>,
) -> Option<Indexed> {
    let before = Before::look(old)?;
    let Walk { paths, folders, errors } = before.walk(options)?;
    let (keep, read, mut further) = before.sort(paths);
    let group = before.group(os, target, &read, &keep)?;
    let stores = immutable(os, options);
    let fingerprints = OsFingerprints::trusting(options.trusted_times);
    let work = Work::new(os, fingerprints, options, (&stores, &group, &folders)).ok()?;
    if work.loaders != *before.loaders || work.settings() != old.settings {
        return None;
    }
    let paths = keep.iter().map(|object| &object.path).chain(&read).chain(&further);
    let known: FxHashSet<BString> = paths.cloned().collect();
    let mut seen = Seen { known, ..Seen::default() };
    let session = os.session();
    // The walk found the others by their own paths.
    let others = keep.iter().filter(|object| !object.canonical).map(|object| &object.path);
    others.chain(&further).for_each(|path| _ = seen.count(&session, path));
    let kept: Vec<Object> = keep.into_iter().cloned().collect();
    let mut below = work.list(&kept, &mut seen.listed);
    below.retain(|path| seen.known.insert(path.clone()) && seen.count(&session, path));
    further.extend(below);
    let new = work.resolve_all(&group.paths, &further, &mut seen);
    let machine = work.join(&before, kept, new, seen.listed);
    Some(Indexed { machines: vec![machine], errors, ..Indexed::default() })
}

/// The old index and its comparison with the files.
pub(super) struct Before<'a> {
    pub(super) old: &'a Index,
    fingerprints: OsFingerprints,
    pub(super) holds: FxHashMap<&'a Arc<Condition>, bool>,
    /// For each folder, true if it is unchanged.
    same: FxHashMap<&'a BString, bool>,
    /// The loaders for which the answers are valid.
    loaders: &'a BString,
}

/// The result of listing the changed folders.
struct Walk {
    /// Files that may be new objects.
    paths: Vec<BString>,
    /// Every folder that a walk of the stores would list.
    folders: Vec<BString>,
    errors: Vec<HostError>,
}

impl<'a> Before<'a> {
    fn look(old: &'a Index) -> Option<Self> {
        let conditions = old.conditions();
        let loaders = conditions.iter().find_map(|condition| match &***condition {
            Condition::Loader(list) => Some(list),
            _ => None,
        })?;
        let fingerprints = OsFingerprints::default();
        let holds = conditions.par_iter().map(|&it| (it, fingerprints.hold(it))).collect();
        let folders = old.folders.par_iter();
        let same = folders.map(|it| (&it.path, fingerprints.is_as_it_was(it))).collect();
        Some(Self { old, fingerprints, holds, same, loaders })
    }

    /// Lists the changed folders and walks the new ones. Returns `None` if a store was not walked
    /// before.
    fn walk(&self, options: IndexOptions<'_>) -> Option<Walk> {
        let walked = self.old.folders.iter().filter(|folder| folder.walked);
        let walked: FxHashMap<&BStr, bool> =
            walked.map(|folder| (folder.path.as_bstr(), self.same[&folder.path])).collect();
        let roots: Vec<PathBuf> = options.stores.iter().map(|path| real(path)).collect();
        if !roots.iter().all(|root| walked.contains_key(path_bytes(root).as_bstr())) {
            return None;
        }
        let (same, changed): (Vec<_>, Vec<_>) = walked.iter().partition(|(_, same)| **same);
        // Removed folders are left out.
        let changed = changed.into_iter().map(|(folder, _)| path_of(folder));
        let changed: Vec<PathBuf> = changed.filter(|folder| folder.is_dir()).collect();
        let is_in_root = |below: &Path| roots.iter().any(|root| below.parent() == Some(root));
        let is_new = |below: &Path| {
            let is_known = walked.contains_key(path_bytes(below).as_bstr());
            !(is_known || is_hidden(below) && is_in_root(below))
        };
        let (progress, enter) =
            (options.progress, Some(&is_new as &(dyn Fn(&Path) -> bool + Sync)));
        let walk = WalkOptions {
            progress,
            enter,
            every_name: true,
            folders: true,
            ..WalkOptions::default()
        };
        let found = find_objects(&changed, walk);
        let mut paths = elf_paths(&found.objects, &roots);
        paths.extend(options.files.iter().map(|path| path_bytes(&real(path))));
        let mut folders: Vec<BString> =
            same.into_iter().map(|(&folder, _)| folder.to_owned()).collect();
        folders.extend(found.folders.iter().map(|folder| path_bytes(folder)));
        Some(Walk { paths, folders, errors: found.errors })
    }

    /// Sorts the objects: those to keep, those to read, and non-canonical paths that are also read.
    fn sort(&self, found: Vec<BString>) -> (Vec<&'a Object>, Vec<BString>, Vec<BString>) {
        let named = self.old.objects.par_iter().filter(|object| !object.path.is_empty());
        let (keep, changed): (Vec<&Object>, Vec<&Object>) =
            named.partition(|object| self.still_answers(object));
        let kept: FxHashSet<&BString> = keep.iter().map(|object| &object.path).collect();
        let (own, lost): (Vec<&Object>, Vec<&Object>) =
            changed.into_iter().partition(|object| object.canonical);
        let own = own.into_iter().map(|object| object.path.clone());
        let read: BTreeSet<BString> =
            own.chain(found).filter(|path| !kept.contains(path)).collect();
        let lost: FxHashSet<&BString> = lost.into_iter().map(|object| &object.path).collect();
        let answers = keep.iter().flat_map(|object| &object.edges).map(|edge| &edge.path);
        let further: BTreeSet<BString> =
            answers.filter(|path| lost.contains(path)).cloned().collect();
        (keep, read.into_iter().collect(), further.into_iter().collect())
    }

    /// Returns true if resolving an object again would give the same answers.
    fn still_answers(&self, object: &Object) -> bool {
        let is_same = |folder: &Arc<BString>| self.same.get(&**folder) == Some(&true);
        Deferred::Unsettled.count(&object.deferred) == 0
            && object.searched.iter().all(is_same)
            && self.hold(object)
            && self.fingerprints.is_as_seen(object.path.as_ref(), object.seen)
    }

    /// Returns true if every condition of an object's answers holds.
    fn hold(&self, object: &Object) -> bool {
        let of_edges = object.edges.iter().flat_map(|edge| &edge.conditions);
        of_edges.chain(&object.in_stores).all(|condition| self.holds[condition])
    }

    /// Returns those objects to read that belong to the machine, or `None` if the machine is
    /// unknown.
    fn group(
        &self,
        os: &OsFs,
        target: Target,
        read: &[BString],
        keep: &[&Object],
    ) -> Option<Group> {
        let of_target = |group: &Group| Target::of(&group.ident) == target;
        let loaders: Vec<BString> = self.loaders.split_str(":").map(BString::from).collect();
        let interpreter = loaders.first()?.clone();
        if let Some(group) = by_machine(os, read).into_values().find(of_target) {
            let mut interpreters = [loaders, group.interpreters].concat();
            interpreters.sort_unstable();
            interpreters.dedup();
            return Some(Group { interpreter, interpreters, ..group });
        }
        let session = os.session();
        let ident = keep.iter().find_map(|object| kind_of(&session, object.path.as_ref()))?.0;
        let (paths, programs) = (Vec::new(), Vec::new());
        let empty = Group { ident, interpreter, interpreters: loaders, paths, programs };
        of_target(&empty).then_some(empty)
    }
}

impl Work<'_> {
    /// Builds the index from kept and newly resolved objects.
    fn join(
        &self,
        before: &Before<'_>,
        kept: Vec<Object>,
        new: Vec<Object>,
        listed: ListedDirs,
    ) -> MachineIndex {
        let read = new.len();
        let reached = reached(&kept, &new);
        let (programs, paths) = self.programs_again(before, &kept, &reached);
        let fresh = self.searched(&new);
        let mut all: Vec<Object> = new.into_iter().chain(kept).collect();
        drop_unnamed(&mut all, &listed);
        let common = self.common_again(before, &fresh);
        let common = common.unwrap_or_else(|| self.common(&self.searched(&all)));
        all.insert(0, common);
        self.gather(all, programs, (read, listed), Some(&(before, paths)))
    }

    /// Returns the programs, and the paths of those that are kept. A record is kept if its object is
    /// kept and none of the new objects can be reached from it. A program without an object record has
    /// no run path, so no folder of the index covers its search, and its start is predicted again.
    fn programs_again(
        &self,
        before: &Before<'_>,
        kept: &[Object],
        reached: &FxHashSet<BString>,
    ) -> (Vec<Program>, FxHashSet<BString>) {
        let kept = kept.iter().map(|object| &object.path);
        let kept: FxHashSet<&BString> = kept.filter(|path| !reached.contains(*path)).collect();
        let (same, others): (Vec<&Program>, Vec<&Program>) =
            before.old.programs.iter().partition(|program| kept.contains(&program.path));
        let others = others.into_iter().map(|program| &program.path);
        let again: BTreeSet<&BString> = others.chain(&self.group.programs).collect();
        let again: Vec<BString> = again.into_iter().cloned().collect();
        let mut programs = self.programs(&again);
        let paths = same.iter().map(|program| program.path.clone()).collect();
        programs.extend(same.into_iter().cloned());
        programs.sort_by(|a, b| a.path.cmp(&b.path));
        (programs, paths)
    }

    /// Returns the earlier common object, if the loader cache is unchanged. A name that is now in
    /// one of `dirs` is no longer outside of them.
    fn common_again(&self, before: &Before<'_>, dirs: &FxHashSet<Arc<BString>>) -> Option<Object> {
        let common = before.old.objects.iter().find(|object| object.path.is_empty())?;
        if !before.hold(common) {
            return None;
        }
        let names = names_of(dirs);
        let mut common = common.clone();
        for edge in &mut common.edges {
            let is_named = names.as_ref().is_none_or(|names| names.contains(edge.needed()));
            edge.outside &= !is_named;
        }
        Some(common)
    }
}

/// Returns the kept objects whose answers lead to a new object. An object with a deferred lookup
/// may lead to any object, so it counts too.
fn reached(kept: &[Object], new: &[Object]) -> FxHashSet<BString> {
    let mut reached: FxHashSet<BString> = FxHashSet::default();
    if new.is_empty() {
        return reached;
    }
    reached.extend(new.iter().map(|object| object.path.clone()));
    let is_open = |why: &Deferred| *why != Deferred::NotFound;
    let open: Vec<Deferred> = Deferred::ALL.into_iter().filter(is_open).collect();
    loop {
        let leads = |Object { path, edges, deferred, .. }: &&Object| {
            !reached.contains(path)
                && (open.iter().any(|why| why.count(deferred) > 0)
                    || edges.iter().any(|edge| reached.contains(&edge.path)))
        };
        let more: Vec<BString> =
            kept.iter().filter(leads).map(|object| object.path.clone()).collect();
        if more.is_empty() {
            return reached;
        }
        reached.extend(more);
    }
}

/// Removes objects whose non-canonical paths are in no answer.
fn drop_unnamed(all: &mut Vec<Object>, listed: &ListedDirs) {
    let answers = all.iter().flat_map(|object| &object.edges);
    let answers = answers.map(|edge| edge.path.clone());
    let named: FxHashSet<BString> = answers.chain(certain_paths(listed)).collect();
    all.retain(|object| object.canonical || named.contains(&object.path));
}

/// Returns true for a hidden name, as [`elf_paths`] defines it.
fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"."))
}
