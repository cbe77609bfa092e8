//! The indexes of a pack: the table alone, around which each machine puts its own audit module.
//!
//! For starts that do not look at the tree there are others: the loader finds each packed file of a start in the
//! folder of the pack, whatever run path leads to it. What was looked up in the tree counts as it was packed.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use becalm_core::index::bound::BoundProgram;
use becalm_core::index::build::Fingerprints;
use becalm_core::index::{Condition, Fingerprint, Index, Program, Table, Target, encode};
use becalm_core::path::normal;
use becalm_host::index_store::OsFingerprints;
use bstr::{BStr, BString, ByteSlice};
use rustc_hash::FxHashSet;

use crate::assume::StorePrefixes;
use crate::index::file;
use crate::index::module::Modules;
use crate::index::trust::Rule;
use crate::path::{path_bytes, path_of};
use crate::records::Place;
use crate::run::kept::environment;
use crate::run::making::{self, Libraries};
use crate::run::program;
use crate::trees::folder;
use crate::trees::record::{Kind, Record, RecordedPath};

/// The folder of indexes in that of a pack that was unpacked, and of those for starts that do not look at the tree.
const FOLDER: &str = "indexes";
const PLACED: &str = "placed";
/// The file that changes when a library is installed.
const LOADER_CACHE: &str = "/etc/ld.so.cache";

/// An index that is ready to be written.
pub(super) struct Written {
    name: String,
    target: Target,
    index: Index,
    bytes: Vec<u8>,
}

/// Returns the name of a command's index: another one for each version of becalm, and each `LD_LIBRARY_PATH` and
/// `LD_PRELOAD`.
pub(super) fn name(place: &Place) -> String {
    let of_command = Path::new(place.name()).file_stem().unwrap_or_default();
    format!("{}-{:016x}.so", of_command.display(), environment(&StorePrefixes::default()))
}

/// Returns what may be libraries, the first one of each name.
pub(super) fn libraries<'a>(records: impl Iterator<Item = &'a Record>) -> Libraries {
    let mut libraries = Libraries::default();
    let paths = records.flat_map(|record| &record.paths);
    for it in paths.filter(|it| matches!(it.kind, Kind::File | Kind::Link)) {
        let Some((_, name)) = RecordedPath::split(&it.path) else { continue };
        if name.contains(".so") {
            libraries.entry(name.into()).or_insert_with(|| PathBuf::from(&it.path));
        }
    }
    libraries
}

/// Returns the table of the index of a record's command, which may start programs that find these libraries; `None`
/// if it can have none.
pub(super) fn table(record: &Record, libraries: &Libraries) -> Option<Vec<u8>> {
    let command = program::find(record.header.command.as_ref()).ok()?;
    let told: Vec<PathBuf> = record.header.programs.iter().map(PathBuf::from).collect();
    making::table(command, told, libraries).ok()
}

/// Puts the audit module of this becalm around a table; `None` if the table is of another version, or for other
/// libraries than this machine has outside the trees.
pub(super) fn around(name: String, table: &[u8], trees: &[&Path]) -> Option<Written> {
    let read = Table::read(table).ok()?;
    let (target, index) = (read.target(), read.index().ok()?);
    is_for_this_machine(&index, trees).then_some(())?;
    let bytes = Modules::new(None).ok()?.around(target, table)?;
    Some(Written { name, target, index, bytes })
}

/// True if the files of starts outside the trees have the lengths and times with which they were indexed. Those in
/// the trees are compared in each start, as always.
fn is_for_this_machine(index: &Index, trees: &[&Path]) -> bool {
    let is_same = |path: &Path, known: &Fingerprint| {
        path.metadata().is_ok_and(|now| {
            (now.len(), now.mtime(), now.mtime_nsec())
                == (known.size, known.mtime.sec, known.mtime.nsec.into())
        })
    };
    index.bound.objects.iter().all(|object| {
        let path = path_of(object.path.as_ref());
        match &*object.condition {
            _ if trees.iter().any(|tree| path.starts_with(tree)) => true,
            Condition::File(_, known) => is_same(&path, known),
            _ => false,
        }
    })
}

/// Writes indexes into the folder of a pack, and those in which the files are in these places.
pub(super) fn write(pack: &Path, indexes: Vec<Written>, places: &Places<'_>) -> io::Result<()> {
    for Written { name, target, index, bytes } in indexes {
        let table = encode(&placed(index, places), target).map_err(io::Error::other)?;
        let modules = Modules::new(None).map_err(io::Error::other)?;
        let of_places = modules.around(target, &table).unwrap_or_default();
        for (folder, bytes) in [(FOLDER, bytes), (PLACED, of_places)] {
            let folder = pack.join(folder);
            folder::make_private(&folder)?;
            file::write(&folder.join(&name), target, &bytes, Rule::Chosen)
                .map_err(io::Error::other)?;
        }
    }
    Ok(())
}

/// Returns the index of the command with this place in the folder of a pack, if no library was installed since it was unpacked.
pub(super) fn find(place: &Place, is_placed: bool) -> Option<PathBuf> {
    let folder = if is_placed { PLACED } else { FOLDER };
    let index = place.folder().join(folder).join(name(place));
    let time = |path: &Path| path.metadata().and_then(|facts| facts.modified()).ok();
    let unpacked = time(&index)?;
    let installed = time(LOADER_CACHE.as_ref()).unwrap_or(SystemTime::UNIX_EPOCH);
    (installed <= unpacked).then_some(index)
}

/// The files and directories of a pack on this machine.
pub(super) struct Places<'a> {
    trees: Vec<&'a Path>,
    paths: FxHashSet<&'a [u8]>,
    /// The folder of the files, and where it is until all are there.
    folder: BString,
    part: BString,
}

impl<'a> Places<'a> {
    pub(super) fn of(records: &'a [Record], folder: &Path, part: &Path) -> Self {
        let trees = records.iter().flat_map(|it| &it.header.trees).map(Path::new);
        let is_there = |kind| matches!(kind, Kind::Link | Kind::Directory);
        let paths = records.iter().flat_map(|record| &record.paths);
        let paths = paths.filter(|it| it.copy.is_some() || is_there(it.kind));
        let paths = paths.map(|it| it.path.as_bytes()).collect();
        let [folder, part] = [folder, part].map(path_bytes);
        Self { trees: trees.collect(), paths, folder, part }
    }

    fn are_of_tree(&self, path: &BStr) -> bool {
        let path = path_of(&normal(path));
        self.trees.iter().any(|tree| path.starts_with(tree))
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
fn placed(mut index: Index, places: &Places<'_>) -> Index {
    let of_tree = |it: &Condition| places.are_of_tree(it.path());
    let keep = |conditions: &mut Vec<Arc<Condition>>| conditions.retain(|it| !of_tree(it));
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
    index.directories.retain(|it| !of_tree(&it.condition));
    add(&mut index.search_dirs, places, |it| &mut it.path, |it| it.look = false);
    add(&mut index.objects, places, |it| &mut it.path, |it| it.seen = 0);
    let unseen = |it: &mut Program| (it.seen, it.load_order) = (0, 0);
    add(&mut index.programs, places, |it| &mut it.path, unseen);
    bind(&mut index, places);
    index
}

/// Adds what is in the pack again, as it is at its place.
fn add<T: Clone>(
    all: &mut Vec<T>,
    places: &Places<'_>,
    path: fn(&mut T) -> &mut BString,
    set_there: fn(&mut T),
) {
    for mut it in all.clone() {
        if let Some(place) = places.at(path(&mut it).as_ref()) {
            *path(&mut it) = place;
            set_there(&mut it);
            all.push(it);
        }
    }
}

/// Lets the objects of bound starts be those of the pack. Bindings name them by their numbers, which stay.
fn bind(index: &mut Index, places: &Places<'_>) {
    for object in &mut index.bound.objects {
        let known = places.fingerprint(object.path.as_ref());
        let Some((path, known)) = places.at(object.path.as_ref()).zip(known) else { continue };
        object.condition = Arc::new(Condition::File(path.clone(), known));
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
