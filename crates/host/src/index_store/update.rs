//! Bringing an index up to date: what has changed since, by the stamps it holds, is read again,
//! the rest is kept.
//!
//! An object's answers are kept where its file is as it was, every directory its search may look
//! into is as it was (absent ones still absent), and every guard of its answers holds. So a
//! change is noticed wherever the search could notice it. Folders that are as they were are not
//! listed, files that are as they were not opened.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use becalm_core::facts::LoaderFacts;
use becalm_core::fs::Errno;
use becalm_core::index::build::{Deferred, Fingerprints, ResolvedObject};
use becalm_core::index::tls::StaticTls;
use becalm_core::index::{Condition, Fingerprint, Folder, Index, Object, Program, Target};
use bstr::{BStr, BString, ByteSlice};
use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

use super::rpath::{ListedDirs, certain_paths};
use super::{
    Group, IndexOptions, Indexed, MachineIndex, OsFingerprints, Work, by_machine, bytes_of,
    elf_paths, immutable, kind_of, names_of, real,
};
use crate::{FactChoice, HostError, OsFs, WalkOptions, find_objects, loader_facts};

impl OsFingerprints {
    /// As the module looks at it (`crates/lib/audit/condition.c` `look`). Whose loader a process has, only the
    /// process knows.
    #[must_use]
    pub fn hold(&self, condition: &Condition) -> bool {
        let fingerprint = |path: &BString| self.fingerprint(path.as_ref());
        match condition {
            Condition::Directory(path, known) => {
                fingerprint(path).is_ok_and(|now| now == Fingerprint { size: now.size, ..*known })
            }
            Condition::File(path, known) => fingerprint(path) == Ok(*known),
            Condition::Absent(path) | Condition::AbsentPackage(path) => {
                fingerprint(path) == Err(Errno::NOENT)
            }
            Condition::Loader(_) => true,
        }
    }

    /// As [`Self::hold`], in a process with the loader at a path.
    #[must_use]
    pub fn hold_for(&self, condition: &Condition, loader: &BStr) -> bool {
        match condition {
            Condition::Loader(paths) => paths.split_str(":").any(|path| path == loader),
            condition => self.hold(condition),
        }
    }

    /// True where a folder is as it was, or still not there.
    #[must_use]
    pub fn is_as_it_was(&self, folder: &Folder) -> bool {
        match (folder.digest, self.fingerprint(folder.path.as_ref())) {
            (Folder::UNKNOWN, _) => false,
            (Folder::ABSENT, now) => now == Err(Errno::NOENT),
            (digest, now) => now.is_ok_and(|now| Fingerprint { size: 0, ..now }.digest() == digest),
        }
    }

    /// True if the file at a path is the one of that mark ([`Object::seen`]).
    #[must_use]
    pub fn is_as_seen(&self, path: &BStr, seen: u32) -> bool {
        seen != 0 && self.fingerprint(path).is_ok_and(|fingerprint| fingerprint.digest() == seen)
    }
}

/// Brings the index of one machine up to date. `None` where everything has to be read: other
/// facts of the loader, one more loader like it, other stores, another becalm.
#[must_use]
pub fn update_stores(
    os: &OsFs,
    old: &Index,
    target: Target,
    options: IndexOptions<'_>,
) -> Option<Indexed> {
    let before = Before::look(old)?;
    let Walk { paths, folders, errors } = before.walk(options)?;
    let Sorted { keep, read, mut further } = before.sort(paths);
    let group = before.group(os, target, &read, &keep)?;
    let stores = immutable(os, options);
    let choice = FactChoice::default();
    let choice = options.facts.unwrap_or(&choice);
    let facts = loader_facts(os, group.interpreter.as_ref(), choice).ok()?;
    let (fingerprints, loaders) = (OsFingerprints::default(), BString::default());
    let (stores, group, folders) = (&stores, &group, folders.as_slice());
    let mut work = Work { os, fingerprints, options, stores, group, folders, loaders };
    work.loaders = work.alike(&facts, choice);
    if work.loaders != *before.loaders || work.settings(&facts) != old.settings {
        return None;
    }
    let paths = keep.iter().map(|object| &object.path).chain(&read).chain(&further);
    let mut known: FxHashSet<BString> = paths.cloned().collect();
    let kept = before.kept(&keep);
    let mut listed = ListedDirs::default();
    let below = work.list(&facts, &kept, &mut listed);
    further.extend(below.into_iter().filter(|path| known.insert(path.clone())));
    let new = work.ask_all(&facts, &group.paths, &further, &mut known, &mut listed);
    let machine = work.join(&facts, &before, kept, new, listed);
    Some(Indexed { machines: vec![machine], errors, ..Indexed::default() })
}

/// The old index, held against what is there.
struct Before<'a> {
    old: &'a Index,
    fingerprints: OsFingerprints,
    /// By guard, whether it holds.
    holds: Vec<bool>,
    /// By folder, whether it is as it was.
    same: Vec<bool>,
    /// The loaders its answers are for.
    loaders: &'a BString,
}

/// What listing the changed folders gave.
struct Walk {
    /// Files that may be objects nobody has read.
    paths: Vec<BString>,
    /// Every folder that a walk of the stores would list.
    folders: Vec<BString>,
    errors: Vec<HostError>,
}

/// The objects by what is to become of them.
struct Sorted<'a> {
    keep: Vec<&'a Object>,
    read: Vec<BString>,
    /// To read as well, by paths that are not canonical.
    further: Vec<BString>,
}

impl<'a> Before<'a> {
    fn look(old: &'a Index) -> Option<Self> {
        let loaders = old.conditions.iter().find_map(|condition| match condition {
            Condition::Loader(list) => Some(list),
            _ => None,
        })?;
        let fingerprints = OsFingerprints::default();
        let holds: Vec<bool> =
            old.conditions.par_iter().map(|condition| fingerprints.hold(condition)).collect();
        let same = old.folders.par_iter().map(|folder| fingerprints.is_as_it_was(folder)).collect();
        Some(Self { old, fingerprints, holds, same, loaders })
    }

    /// Lists what has changed of the folders that were walked, and walks those that are new.
    /// `None` where a store was not walked.
    fn walk(&self, options: IndexOptions<'_>) -> Option<Walk> {
        let walked = self.old.folders.iter().zip(&self.same).filter(|(folder, _)| folder.walked);
        let walked: FxHashMap<&BStr, bool> =
            walked.map(|(folder, &same)| (folder.path.as_bstr(), same)).collect();
        let roots: Vec<PathBuf> = options.stores.iter().map(|path| real(path)).collect();
        if !roots.iter().all(|root| walked.contains_key(bytes_of(root).as_bstr())) {
            return None;
        }
        let (mut paths, mut folders, mut errors) = (Vec::new(), Vec::new(), Vec::new());
        let mut new = Vec::new();
        for (&folder, &same) in &walked {
            if same {
                folders.push(folder.to_owned());
                continue;
            }
            match list(folder) {
                Ok((below, files)) => {
                    folders.push(folder.to_owned());
                    paths.extend(files);
                    let in_root = roots.iter().any(|root| bytes_of(root) == folder);
                    let is_known = |below: &PathBuf| {
                        walked.contains_key(bytes_of(below).as_bstr())
                            || (in_root && is_hidden(below))
                    };
                    new.extend(below.into_iter().filter(|below| !is_known(below)));
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(source) => errors.push(HostError::Read { path: path_of(folder), source }),
            }
        }
        let walk = WalkOptions { progress: options.progress, every_name: true, folders: true };
        let found = find_objects(&new, walk);
        paths.extend(elf_paths(&found.objects, &roots));
        paths.extend(options.files.iter().map(|path| bytes_of(&real(path))));
        folders.extend(found.folders.iter().map(|folder| bytes_of(folder)));
        errors.extend(found.errors);
        Some(Walk { paths, folders, errors })
    }

    fn sort(&self, found: Vec<BString>) -> Sorted<'a> {
        let objects: Vec<(&Object, bool)> = self
            .old
            .objects
            .par_iter()
            .filter(|object| !object.path.is_empty())
            .map(|object| (object, self.still_answers(object)))
            .collect();
        let keep: Vec<&Object> =
            objects.iter().filter(|(_, same)| *same).map(|&(o, _)| o).collect();
        let kept: FxHashSet<&BString> = keep.iter().map(|object| &object.path).collect();
        let changed = objects.iter().filter(|(object, same)| !same && object.canonical);
        let changed = changed.map(|(object, _)| object.path.clone());
        let mut read: Vec<BString> =
            changed.chain(found).filter(|path| !kept.contains(path)).collect();
        read.sort_unstable();
        read.dedup();
        let lost: FxHashSet<&BString> = objects
            .iter()
            .filter(|(object, same)| !same && !object.canonical)
            .map(|(object, _)| &object.path)
            .collect();
        let answers = keep.iter().flat_map(|object| &object.edges).map(|edge| &edge.path);
        let mut further: Vec<BString> =
            answers.filter(|path| lost.contains(path)).cloned().collect();
        further.sort_unstable();
        further.dedup();
        Sorted { keep, read, further }
    }

    /// True where asking an object again would give what is known.
    fn still_answers(&self, object: &Object) -> bool {
        let is_same = |&folder: &u32| self.same.get(folder as usize) == Some(&true);
        Deferred::Unsettled.count(&object.deferred) == 0
            && object.searched.iter().all(is_same)
            && self.hold(object)
            && self.fingerprints.is_as_seen(object.path.as_ref(), object.seen)
    }

    /// True where every guard of an object's answers holds.
    fn hold(&self, object: &Object) -> bool {
        let mut conditions = object.edges.iter().flat_map(|edge| &edge.conditions);
        conditions.all(|&condition| self.holds.get(condition as usize) == Some(&true))
    }

    /// Those of the machine among the objects to read. `None` where the machine cannot be told.
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

    /// The kept objects as they were asked.
    fn kept(&self, keep: &[&Object]) -> Vec<ResolvedObject> {
        let folders = self.old.folders.iter();
        let dirs: Vec<Arc<BString>> = folders.map(|folder| Arc::new(folder.path.clone())).collect();
        keep.iter().map(|object| self.resolved(object, &dirs)).collect()
    }

    /// A kept object as it was asked.
    fn resolved(&self, object: &Object, searched: &[Arc<BString>]) -> ResolvedObject {
        let condition = |at: &u32| self.old.conditions.get(*at as usize).cloned();
        let conditions = object.edges.iter();
        let conditions =
            conditions.map(|edge| edge.conditions.iter().filter_map(condition).collect()).collect();
        let dirs = object.searched.iter().filter_map(|&at| searched.get(at as usize).cloned());
        let searched = dirs.collect();
        let has_rpath = object.rpath.is_some();
        ResolvedObject { object: object.clone(), conditions, searched, has_rpath }
    }
}

impl Work<'_> {
    /// The index of what is kept and what was asked anew.
    fn join(
        &self,
        facts: &Arc<LoaderFacts>,
        before: &Before<'_>,
        kept: Vec<ResolvedObject>,
        new: Vec<ResolvedObject>,
        listed: ListedDirs,
    ) -> MachineIndex {
        let read = new.len();
        let reached = reached(&kept, &new);
        let programs = self.programs_again(facts, before, &kept, &reached);
        let fresh = self.searched(&new);
        let mut all: Vec<ResolvedObject> = new.into_iter().chain(kept).collect();
        drop_unnamed(&mut all, &listed);
        let common = self.common_again(before, &fresh);
        let common = common.unwrap_or_else(|| self.common(facts, &self.searched(&all)));
        self.gather(facts, all, common, programs, (read, listed))
    }

    /// The programs: a record is kept where its object is and nothing new can be reached from it.
    /// A program without an object record has no run path, so that its libraries are found by what
    /// no folder of the index stands for.
    fn programs_again(
        &self,
        facts: &Arc<LoaderFacts>,
        before: &Before<'_>,
        kept: &[ResolvedObject],
        reached: &FxHashSet<BString>,
    ) -> Vec<(Program, StaticTls)> {
        let kept = kept.iter().map(|resolved| &resolved.object.path);
        let kept: FxHashSet<&BString> = kept.filter(|path| !reached.contains(*path)).collect();
        let (same, others): (Vec<&Program>, Vec<&Program>) =
            before.old.programs.iter().partition(|program| kept.contains(&program.path));
        let mut again: Vec<BString> = others.iter().map(|program| program.path.clone()).collect();
        again.extend(self.group.programs.iter().cloned());
        again.sort_unstable();
        again.dedup();
        let need = |program: &Program| StaticTls::kept(program.static_tls, program.no_start);
        let mut programs = self.programs(facts, &again);
        programs.extend(same.into_iter().map(|program| (program.clone(), need(program))));
        programs.sort_by(|(a, _), (b, _)| a.path.cmp(&b.path));
        programs
    }

    /// The common object of before, where the loader cache is; a name that now lies in one of
    /// these directories is no longer outside.
    fn common_again(
        &self,
        before: &Before<'_>,
        dirs: &FxHashSet<Arc<BString>>,
    ) -> Option<ResolvedObject> {
        let common = before.old.objects.iter().find(|object| object.path.is_empty())?;
        if !before.hold(common) {
            return None;
        }
        let names = names_of(dirs);
        let mut resolved = before.resolved(common, &[]);
        for edge in &mut resolved.object.edges {
            let is_named = names.as_ref().is_none_or(|names| names.contains(edge.needed()));
            edge.outside &= !is_named;
        }
        Some(resolved)
    }
}

/// The kept objects from which answers lead to a new one, or may, where a question is the
/// loader's.
fn reached(kept: &[ResolvedObject], new: &[ResolvedObject]) -> FxHashSet<BString> {
    let mut reached: FxHashSet<BString> = FxHashSet::default();
    if new.is_empty() {
        return reached;
    }
    reached.extend(new.iter().map(|resolved| resolved.object.path.clone()));
    let is_open = |why: &Deferred| *why != Deferred::NotFound;
    let open: Vec<Deferred> = Deferred::ALL.into_iter().filter(is_open).collect();
    loop {
        let leads = |resolved: &&ResolvedObject| {
            let Object { path, edges, deferred, .. } = &resolved.object;
            !reached.contains(path)
                && (open.iter().any(|why| why.count(deferred) > 0)
                    || edges.iter().any(|edge| reached.contains(&edge.path)))
        };
        let more: Vec<BString> =
            kept.iter().filter(leads).map(|resolved| resolved.object.path.clone()).collect();
        if more.is_empty() {
            return reached;
        }
        reached.extend(more);
    }
}

/// Leaves out objects by paths that no answer names any longer.
fn drop_unnamed(all: &mut Vec<ResolvedObject>, listed: &ListedDirs) {
    let answers = all.iter().flat_map(|resolved| &resolved.object.edges);
    let answers = answers.map(|edge| edge.path.clone());
    let named: FxHashSet<BString> = answers.chain(certain_paths(listed)).collect();
    all.retain(|resolved| resolved.object.canonical || named.contains(&resolved.object.path));
}

/// The folders in a folder, and the files that begin like ELF.
fn list(folder: &BStr) -> std::io::Result<(Vec<PathBuf>, Vec<BString>)> {
    let (mut folders, mut files) = (Vec::new(), Vec::new());
    for entry in path_of(folder).read_dir()? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            folders.push(entry.path());
        } else if kind.is_file() && is_elf(&entry.path()) {
            files.push(bytes_of(&entry.path()));
        }
    }
    Ok((folders, files))
}

/// As in [`elf_paths`].
fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"."))
}

fn is_elf(path: &Path) -> bool {
    let mut start = [0; 4];
    File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok()
        && start == *b"\x7fELF"
}

fn path_of(bytes: &BStr) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}
