//! The indexes of a pack: the table alone, around which each machine puts its own audit module.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use becalm_core::index::{Condition, Fingerprint, Index, Table, Target, encode};

use crate::index::file;
use crate::index::module::Modules;
use crate::index::trust::Rule;
use crate::path::path_of;
use crate::records::Place;
use crate::run::making::Libraries;
use crate::run::{self, program};
use crate::trees::placed_index::{Places, placed};
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
    format!("{}-{:016x}.so", of_command.display(), run::environment())
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
    run::table(command, &told, libraries).ok()
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
        match index.conditions.get(object.condition as usize) {
            _ if trees.iter().any(|tree| path.starts_with(tree)) => true,
            Some(Condition::File(_, known)) => is_same(&path, known),
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
            DirBuilder::new().mode(0o700).recursive(true).create(&folder)?;
            file::write_bytes(&folder.join(&name), target, &bytes, Rule::Chosen)
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
