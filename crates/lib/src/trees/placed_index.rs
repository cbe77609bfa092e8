//! The index of a pack for starts that do not look at the tree: the loader finds each packed file of a start in the
//! folder of the pack, whatever run path leads to it. What was looked up in the tree counts as it was packed.

use std::path::Path;

use becalm_core::index::bound::BoundProgram;
use becalm_core::index::build::Fingerprints;
use becalm_core::index::{Condition, Fingerprint, Index, Object, Program, SearchDir};
use becalm_core::path::normal;
use becalm_host::index_store::OsFingerprints;
use bstr::{BStr, BString, ByteSlice};
use rustc_hash::FxHashSet;

use crate::path::path_bytes;
use crate::trees::record::{Kind, Record};

/// The files and directories of a pack on this machine.
pub(super) struct Places<'a> {
    trees: Vec<BString>,
    paths: FxHashSet<&'a [u8]>,
    /// The folder of the files, and where it is until all are there.
    folder: BString,
    part: BString,
}

impl<'a> Places<'a> {
    pub(super) fn of(records: &'a [Record], folder: &Path, part: &Path) -> Self {
        let trees = records.iter().flat_map(|it| &it.header.trees).map(|it| it.as_str().into());
        let is_there = |kind| matches!(kind, Kind::Link | Kind::Directory);
        let paths = records.iter().flat_map(|record| &record.paths);
        let paths = paths.filter(|it| it.copy.is_some() || is_there(it.kind));
        let paths = paths.map(|it| it.path.as_bytes()).collect();
        let [folder, part] = [folder, part].map(path_bytes);
        Self { trees: trees.collect(), paths, folder, part }
    }

    fn are_of_tree(&self, path: &BStr) -> bool {
        let path = normal(path);
        let rests = self.trees.iter().filter_map(|tree| path.strip_prefix(tree.as_slice()));
        rests.into_iter().any(|rest| rest.is_empty() || rest.starts_with(b"/"))
    }

    /// Returns the place of what is at a path.
    fn at(&self, path: &BStr) -> Option<BString> {
        let is_packed = self.paths.contains(normal(path).as_slice());
        is_packed.then(|| [&self.folder[..], path].concat().into())
    }

    fn fingerprint(&self, path: &BStr) -> Option<Fingerprint> {
        let now = [&self.part[..], path].concat();
        OsFingerprints::default().fingerprint(now.as_bstr()).ok()
    }
}

/// Returns the index with the places of packed files. Programs can be started from either path.
pub(super) fn placed(mut index: Index, places: &Places<'_>) -> Index {
    let of_tree = |it: &Condition| places.are_of_tree(it.path());
    let of_tree: Vec<bool> = index.conditions.iter().map(of_tree).collect();
    let keep = |conditions: &mut Vec<u32>| conditions.retain(|&it| !of_tree[it as usize]);
    keep(&mut index.roots);
    for object in &mut index.objects {
        keep(&mut object.in_stores);
        for edge in &mut object.edges {
            keep(&mut edge.conditions);
            if let Some(path) = places.at(edge.path.as_ref()) {
                (edge.path, edge.look) = (path, false);
            }
        }
    }
    index.search_dirs.iter_mut().for_each(|dir| keep(&mut dir.conditions));
    index.directories.retain(|it| !of_tree[it.condition as usize]);
    add(&mut index.search_dirs, places, |it| SearchDir { look: false, ..it }, |it| &mut it.path);
    add(&mut index.objects, places, |it| Object { seen: 0, ..it }, |it| &mut it.path);
    let unseen = |it| Program { seen: 0, load_order: 0, ..it };
    add(&mut index.programs, places, unseen, |it| &mut it.path);
    bind(&mut index, places);
    index
}

/// Adds what is in the pack again, as it is at its place.
fn add<T: Clone>(
    all: &mut Vec<T>,
    places: &Places<'_>,
    there: impl Fn(T) -> T,
    path: impl Fn(&mut T) -> &mut BString,
) {
    let placed = all.clone().into_iter().filter_map(|it| {
        let mut it = there(it);
        let place = places.at(path(&mut it).as_ref())?;
        *path(&mut it) = place;
        Some(it)
    });
    all.extend(placed.collect::<Vec<_>>());
}

/// Lets the objects of bound starts be those of the pack. Bindings name them by their numbers, which stay.
fn bind(index: &mut Index, places: &Places<'_>) {
    for object in &mut index.bound.objects {
        let known = places.fingerprint(object.path.as_ref());
        let Some((path, known)) = places.at(object.path.as_ref()).zip(known) else { continue };
        object.condition = index.conditions.len() as u32;
        index.conditions.push(Condition::File(path.clone(), known));
        (object.path, object.is_rooted) = (path, false);
    }
    // Another program may start one from the tree: a build ID says that it is the same.
    for program in std::mem::take(&mut index.bound.programs) {
        let itself = program.members.first().map(|it| &index.bound.objects[it.object as usize]);
        let is_identified = itself.is_some_and(|it| it.build_id.is_some());
        let path = places.at(program.path.as_ref());
        if is_identified || path.is_none() {
            index.bound.programs.push(program.clone());
        }
        index.bound.programs.extend(path.map(|path| BoundProgram { path, ..program }));
    }
}
