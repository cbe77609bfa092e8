//! Verifies an index for `becalm verify`: repeats every lookup and lists the answers that the
//! search would now give differently.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use becalm_core::elf::{Endian, machine_name};
use becalm_core::index::{Condition, Edge, Fingerprint, Index, Object, SearchDir};
use becalm_host::OsFs;
use becalm_host::index_store::{
    BindThreshold, Binding, IndexOptions, OsFingerprints, index_stores,
};
use becalm_host::secure::is_started_secure;
use bstr::{BStr, BString};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;

use crate::index::current::{root_paths, snapshotted};
use crate::index::{file, paths};
use crate::json::{lossy, lossy_option};
use crate::path::{path_bytes, path_of};
use crate::problem::Problem;
use crate::verify::slots;

/// The comparison of one index with the search.
#[derive(Clone, Debug, Serialize)]
pub struct Verified {
    /// The index.
    #[serde(serialize_with = "lossy")]
    pub path: BString,
    /// The machine it is for.
    pub machine: &'static str,
    /// The number of objects in it.
    pub objects: usize,
    /// The number of answers in it.
    pub edges: usize,
    /// True if packages may have been added or removed since: the module then checks each answer
    /// before it gives it.
    pub stores_changed: bool,
    /// The slots of real starts, if they were compared (`--load`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slots: Option<StartedSlots>,
    /// Differences between the index and the files as they are now.
    pub differences: Vec<Difference>,
}

/// Real starts with and without the bindings of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StartedSlots {
    /// The number of programs that were started.
    pub programs: usize,
    /// The number of slots that were compared.
    pub slots: usize,
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The object, or the checked file or directory.
    #[serde(serialize_with = "lossy")]
    pub path: BString,
    /// The kind of the difference.
    pub kind: DifferenceKind,
    /// The needed string, if it is about one.
    #[serde(serialize_with = "lossy_option", skip_serializing_if = "Option::is_none")]
    pub needed: Option<BString>,
    /// The value in the index.
    #[serde(serialize_with = "lossy_option")]
    pub was: Option<BString>,
    /// The value that it would have now.
    #[serde(serialize_with = "lossy_option")]
    pub now: Option<BString>,
}

/// The kinds of differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DifferenceKind {
    /// The object does not exist, or has no lookups along a run path any more.
    Gone,
    /// The object has another run path: the module does not answer for it.
    RunPath,
    /// Another answer; `now` is null if the lookup is now left to the loader.
    Answer,
    /// The same answer, under other conditions.
    Conditions,
    /// The program needs another `glibc.rtld.optional_static_tls`; 0 for the default.
    StaticTls,
    /// The program's start loads other objects, or in another order.
    LoadOrder,
    /// The program's symbols bind differently, or it is no longer bound.
    Bindings,
    /// The module left the bindings of a real start to the loader; `now` has the reason (`--load`).
    NotApplied,
    /// A relocated slot of a real start: `was` as the loader writes it, `now` as the module does
    /// (`--load`).
    Slot,
    /// A directory that a `DT_RPATH` names has other file names, or their conditions differ.
    Names,
    /// The package's fingerprint is unchanged, and its paths are not: it was changed in place.
    Paths,
    /// A directory, file or absence that answers depend on has changed: the module leaves those
    /// lookups to the loader.
    Changed,
}

impl Difference {
    fn new(path: &BString, kind: DifferenceKind) -> Self {
        Self { path: path.clone(), kind, needed: None, was: None, now: None }
    }
}

/// A file that should be an index and is not. The module or the loader ignores it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Damaged {
    /// The file.
    #[serde(serialize_with = "lossy")]
    pub path: BString,
    /// The program whose `DT_AUDIT` names it, if the user did not name it.
    #[serde(serialize_with = "lossy_option", skip_serializing_if = "Option::is_none")]
    pub program: Option<BString>,
    /// A description of the damage.
    pub reason: String,
}

/// Repeats all lookups of an index; with `load` its programs are also started, with and without
/// their bindings, up to the first constructor. Returns the files that could not be read as well.
///
/// # Errors
/// Returns an error if the index cannot be read or is damaged.
pub(super) fn verify(path: &Path, load: bool) -> anyhow::Result<(Verified, Vec<Problem>)> {
    let file::Whole { target, index: old, .. } = file::read(path)?;
    let (prefixes, dirs) = (&root_paths(&old), &snapshotted(&old));
    let named = old.objects.iter().filter(|object| !object.path.is_empty());
    let programs = old.programs.iter().map(|program| &program.path);
    let paths = named.map(|object| &object.path).chain(programs);
    let files = &paths.map(|path| path_of(path.as_ref())).collect::<Vec<_>>();
    let bound = old.bound.programs.iter().map(|program| path_of(program.path.as_ref()));
    let only = Some(&bound.collect::<Vec<_>>()[..]);
    let environments = &old.bound.environments();
    let bind = Some(Binding { threshold: BindThreshold::ALL, only, environments });
    let options = IndexOptions { prefixes, dirs, files, bind, ..IndexOptions::default() };
    let indexed = index_stores(&OsFs::new(), options);
    let new = indexed.machines.into_iter().find(|machine| machine.target == target);
    let new = new.map(|machine| machine.index).unwrap_or_default();
    let mut problems: Vec<Problem> = indexed.errors.iter().map(Problem::from).collect();
    // Other conditions exist only for `--update`, or for the stores as a whole.
    let answers = old.objects.iter().flat_map(|object| &object.edges);
    let mut believed: FxHashSet<_> = answers.flat_map(|edge| &edge.conditions).collect();
    let snapshots = old.directories.iter().filter(|directory| directory.names.is_some());
    believed.extend(snapshots.map(|directory| &directory.condition));
    believed.extend(old.bound.objects.iter().map(|object| &object.condition));
    believed.extend(old.search_dirs.iter().flat_map(|dir| &dir.conditions));
    let fingerprints = OsFingerprints::default();
    let mut differences = differences(&old, &new, target.endian);
    if let Some(old) = &old.paths {
        let changed = paths::differences(old)?;
        let difference = |path: &BString| Difference::new(path, DifferenceKind::Paths);
        differences.extend(changed.iter().map(difference));
    }
    for condition in old.conditions() {
        if believed.contains(condition) && !fingerprints.hold(condition) {
            let path = condition.path().to_owned();
            differences.push(Difference::new(&path, DifferenceKind::Changed));
        }
    }
    let mut verified = Verified {
        path: path_bytes(path),
        machine: machine_name(target.machine),
        objects: old.objects.iter().filter(|object| !object.path.is_empty()).count(),
        edges: old.objects.iter().map(|object| object.edges.len()).sum(),
        stores_changed: old.roots.iter().any(|root| has_changed(&old, root)),
        slots: None,
        differences,
    };
    if load {
        verified.compare_slots(path, &old, &mut problems);
    }
    Ok((verified, problems))
}

/// Returns true if a store is not as it was indexed. A store whose packages are deeper than one directory
/// has no fingerprint as a root, but one as a folder that was walked.
fn has_changed(index: &Index, root: &Condition) -> bool {
    let fingerprints = OsFingerprints::default();
    match root {
        Condition::Directory(path, known) if *known == Fingerprint::default() => {
            let mut walked = index.folders.iter().filter(|folder| folder.walked);
            walked.any(|folder| folder.path == *path && !fingerprints.is_as_it_was(folder))
        }
        root => !fingerprints.hold(root),
    }
}

impl Verified {
    /// Compares the slots of real starts of all bound programs.
    fn compare_slots(&mut self, path: &Path, index: &Index, problems: &mut Vec<Problem>) {
        let place = crate::path::real(path);
        let mut all = StartedSlots::default();
        for bound in &index.bound.programs {
            let program = path_of(bound.path.as_ref());
            let known = index.programs.iter().find(|known| known.path == bound.path);
            let static_tls = known.map_or(0, |known| known.needs.static_tls);
            let mode = program.metadata().map_or(0, |facts| facts.mode());
            if is_started_secure(&program, mode) {
                let reason = "--load: runs with other rights, so no audit module is loaded";
                problems.push(Problem::new(bound.path.clone(), reason));
                continue;
            }
            // LD_BIND_NOW, which makes the two starts alike, ends such a program.
            if bound.undefined_function {
                continue;
            }
            match slots::compare(&program, &place, &bound.variables, static_tls) {
                Ok(slots) => {
                    all.programs += 1;
                    all.slots += slots.compared;
                    let new = |kind| Difference::new(&bound.path, kind);
                    let left = slots.not_applied.map(|why| Difference {
                        now: Some(why.into()),
                        ..new(DifferenceKind::NotApplied)
                    });
                    let slot = |(was, now): (BString, BString)| Difference {
                        was: Some(was),
                        now: Some(now),
                        ..new(DifferenceKind::Slot)
                    };
                    self.differences.extend(left);
                    self.differences.extend(slots.differences.into_iter().map(slot));
                }
                Err(reason) => {
                    problems.push(Problem::new(bound.path.clone(), format!("--load: {reason}")));
                }
            }
        }
        self.slots = Some(all);
    }
}

fn differences(old: &Index, new: &Index, endian: Endian) -> Vec<Difference> {
    let now: FxHashMap<_, _> = new.objects.iter().map(|it| (&it.path, it)).collect();
    let mut found = Vec::new();
    for was in &old.objects {
        match now.get(&was.path) {
            None if was.path.is_empty() => {}
            None => found.push(Difference::new(&was.path, DifferenceKind::Gone)),
            Some(now) if now.run_path != was.run_path => {
                found.push(Difference::new(&was.path, DifferenceKind::RunPath));
            }
            Some(now) => of_object(was, now, &mut found),
        }
    }
    of_programs(old, new, &mut found);
    of_search_dirs(old, new, &mut found);
    let other = old.bound.differences(&new.bound, endian).into_iter();
    found.extend(other.map(|path| Difference::new(&path, DifferenceKind::Bindings)));
    found
}

/// Compares the directories of each `DT_RPATH`, which apply to objects loaded further down.
fn of_search_dirs(old: &Index, new: &Index, found: &mut Vec<Difference>) {
    let now: FxHashMap<_, _> = new.search_dirs.iter().map(|it| (&it.path, it)).collect();
    // Conditions are compared separately.
    let says = |dir: &SearchDir| (dir.names.clone(), dir.look, dir.conditions.len());
    for was in &old.search_dirs {
        if now.get(&was.path).is_none_or(|now| says(now) != says(was)) {
            found.push(Difference::new(&was.path, DifferenceKind::Names));
        }
    }
}

fn of_object(was: &Object, now: &Object, found: &mut Vec<Difference>) {
    let answers: FxHashMap<&BStr, &Edge> = now.edges.iter().map(|e| (e.needed(), e)).collect();
    for edge in &was.edges {
        let needed = edge.needed();
        let differs = |kind| Difference {
            needed: Some(needed.to_owned()),
            ..Difference::new(&was.path, kind)
        };
        match answers.get(needed) {
            Some(now) if now.path == edge.path => {
                if conditions(now) != conditions(edge) {
                    found.push(differs(DifferenceKind::Conditions));
                }
            }
            now => found.push(Difference {
                was: Some(edge.path.clone()),
                now: now.map(|now| now.path.clone()),
                ..differs(DifferenceKind::Answer)
            }),
        }
    }
}

/// A removed program is reported with its objects, or no answer leads to it any more.
fn of_programs(old: &Index, new: &Index, found: &mut Vec<Difference>) {
    let now: FxHashMap<_, _> = new.programs.iter().map(|it| (&it.path, it)).collect();
    for was in &old.programs {
        let Some(now) = now.get(&was.path) else { continue };
        if was.needs.static_tls != now.needs.static_tls {
            found.push(Difference {
                was: Some(was.needs.static_tls.to_string().into()),
                now: Some(now.needs.static_tls.to_string().into()),
                ..Difference::new(&was.path, DifferenceKind::StaticTls)
            });
        }
        if was.load_order != 0 && was.load_order != now.load_order {
            found.push(Difference::new(&was.path, DifferenceKind::LoadOrder));
        }
    }
}

/// Returns the parts of an answer's conditions that are compared here. The conditions themselves
/// are checked separately.
fn conditions(edge: &Edge) -> (bool, bool, usize) {
    (edge.before_library_path, edge.look, edge.conditions.len())
}
