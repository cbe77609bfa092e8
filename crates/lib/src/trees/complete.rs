//! Completes the record of a pack: with the files of the command itself, what links lead to, the directories on the
//! way, the state of each path and the names in each directory.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Instant;

use becalm_core::path::normal;
use becalm_host::tree::look::{self, Changes, Facts, Identity, Numbers};
use becalm_host::tree::table::{self, Found, Table};
use rustc_hash::FxHashSet;
use rustix::fs::CWD;

use crate::path::path_bytes;
use crate::run::making::files_of_start;
use crate::run::program::{self, Program};
use crate::trees::check::Paths;
use crate::trees::record::{Copied, Kind, PathState, Record, RecordedPath};
use crate::trees::{c_path, in_parallel, learn};

/// Adds to records the files of the commands themselves and what is in the tree now, and makes the copies that are
/// missing.
pub(super) fn complete<'a>(records: impl Iterator<Item = &'a mut Record>, folder: &Path) {
    let mut looked = Vec::new();
    for record in records {
        // Packs should be the same each time.
        let learned = record.header.learned;
        add_program(record);
        add_targets(record);
        add_directories(record);
        record.finish(folder);
        let is_looked = add_states(record, folder).is_some();
        record.header.learned = learned;
        looked.extend(is_looked.then_some(record));
    }
    let seen = Instant::now();
    for record in looked {
        let learned = record.header.learned;
        add_copies(record, folder, seen);
        record.finish(folder);
        record.header.learned = learned;
    }
}

/// Makes the copies that are missing, and drops those of other contents.
fn add_copies(record: &mut Record, folder: &Path, seen: Instant) {
    let identities: Vec<Option<Identity>> =
        record.paths.iter().map(|path| path.state.as_ref()?.identity()).collect();
    learn::copy_all(record, folder, &identities, seen);
    for (path, identity) in record.paths.iter_mut().zip(identities) {
        let is_same = |copy: &Copied| identity.is_none_or(|it| it == copy.identity());
        path.copy = path.copy.take().filter(is_same);
    }
}

/// Adds the program of a command, the libraries of its start, and the programs that it starts, as far as they are in
/// its trees.
fn add_program(record: &mut Record) {
    let command = PathBuf::from(&record.header.command);
    let program = program::find(command.as_os_str()).and_then(Program::look);
    // Of a script, the interpreter that it names.
    let named = program.as_ref().map_or_else(|_| command.clone(), |program| program.path.clone());
    let libraries = program.and_then(|program| files_of_start(&program)).unwrap_or_default();
    // The first is the program, where it is if the path is a link.
    let (program, libraries) = libraries.split_at(libraries.len().min(1));
    let programs = [command, named].into_iter().chain(program.iter().cloned());
    let programs = programs.chain(record.header.programs.iter().map(PathBuf::from));
    let all = programs.map(|it| (it, false)).chain(libraries.iter().cloned().map(|it| (it, true)));
    let mut files: Vec<RecordedPath> = Vec::new();
    for (path, mapped) in all {
        let target = target_of(&path);
        let Some(path) = path.to_str().map(ToOwned::to_owned) else { continue };
        let is_inside = record.header.trees.iter().any(|tree| Path::new(&path).starts_with(tree))
            && Path::new(&path).symlink_metadata().is_ok();
        if is_inside && RecordedPath::split(&path).is_some() {
            let (read, added) = (!mapped, true);
            files.push(RecordedPath { path, target, read, mapped, added, ..Default::default() });
        }
    }
    for file in files {
        match record.paths.iter_mut().find(|known| known.path == file.path) {
            Some(known) => {
                known.read |= file.read;
                known.mapped |= file.mapped;
                known.kept &= !known.added;
            }
            None => record.paths.push(file),
        }
    }
}

/// Adds the files to which links lead that programs read or the loader maps, link by link.
fn add_targets(record: &mut Record) {
    let mut known: FxHashSet<String> = record.paths.iter().map(|it| it.path.clone()).collect();
    let mut at = 0;
    while let Some(RecordedPath { path, target, read, mapped, .. }) = record.paths.get(at).cloned()
    {
        at += 1;
        let Some(target) = target.filter(|_| read || mapped) else { continue };
        let Some(above) = Path::new(&path).parent() else { continue };
        let Ok(path) = String::from_utf8(normal(&path_bytes(&above.join(target))).into()) else {
            continue;
        };
        let is_inside = record.header.trees.iter().any(|tree| Path::new(&path).starts_with(tree));
        if is_inside && RecordedPath::split(&path).is_some() && known.insert(path.clone()) {
            let target = target_of(Path::new(&path));
            let added = true;
            record.paths.push(RecordedPath {
                path,
                target,
                read,
                mapped,
                added,
                ..Default::default()
            });
        }
    }
}

/// Returns the target of a link.
pub(super) fn target_of(path: &Path) -> Option<String> {
    path.read_link().ok().and_then(|it| it.to_str().map(ToOwned::to_owned))
}

/// Adds the trees and the directories on the way to each path.
fn add_directories(record: &mut Record) {
    let mut known: FxHashSet<String> = record.paths.iter().map(|it| it.path.clone()).collect();
    let trees = record.header.trees.clone();
    let paths: Vec<String> = record.paths.iter().map(|it| it.path.clone()).chain(trees).collect();
    let is_inside = |it: &Path| record.header.trees.iter().any(|tree| it.starts_with(tree));
    for path in &paths {
        for above in Path::new(path).ancestors().take_while(|it| is_inside(it)) {
            let Some(path) = above.to_str().filter(|it| RecordedPath::split(it).is_some()) else {
                continue;
            };
            if !known.insert(path.to_owned()) {
                continue;
            }
            // Otherwise it would not be watched while the states are looked up.
            let (path, kind) = (path.to_owned(), Kind::Directory);
            record.paths.push(RecordedPath { path, kind, added: true, ..Default::default() });
        }
    }
}

/// Looks at all paths of a record, and adds their states.
fn add_states(record: &mut Record, folder: &Path) -> Option<()> {
    let sizes = record.header.sizes();
    let table = Table::map(table::make(sizes, false).ok()?, sizes).ok()?;
    let changes = Changes::new().ok()?;
    let paths = Paths::anywhere(record, folder);
    paths.fill(&table).then_some(())?;
    paths.look(&table, &changes, true);
    let found = paths.looked(&table).found;
    let trees = record.header.trees.clone();
    for (path, mut found) in record.paths.iter_mut().zip(found) {
        if trees.contains(&path.path) {
            let facts = c_path(Path::new(&path.path)).and_then(|it| look::at(CWD, &it, false).ok());
            let there = |facts| Found::There { facts, followed: None, copy: None };
            found = facts.map_or(Found::Unknown, there);
        }
        let Found::There { facts, followed, .. } = found else {
            let is_absent = matches!(found, Found::Absent);
            path.kind = if is_absent { Kind::Absent } else { Kind::Other };
            continue;
        };
        path.kind = Kind::of(&facts);
        let (found, followed) = (state(facts), followed.map(state));
        path.state = Some(PathState { found, followed, names: None });
    }
    add_names(record);
    Some(())
}

/// Adds the names in the directories. Each listing waits for the file system.
fn add_names(record: &mut Record) {
    let directories: Vec<usize> =
        (0..record.paths.len()).filter(|&at| record.paths[at].kind == Kind::Directory).collect();
    let listed: Vec<OnceLock<Option<Vec<String>>>> =
        directories.iter().map(|_| OnceLock::new()).collect();
    in_parallel(directories.len(), |at| {
        let _ = listed[at].set(names(Path::new(&record.paths[directories[at]].path)));
    });
    for (at, names) in directories.into_iter().zip(listed) {
        if let Some(state) = &mut record.paths[at].state {
            state.names = names.into_inner().flatten();
        }
    }
}

/// Returns the numbers of a state. Reading a file changes its atime, and packs should be the same each time.
fn state(mut facts: Facts) -> Numbers {
    facts.stx_atime = facts.stx_mtime;
    look::numbers(&facts)
}

/// Returns the names in a directory; `None` if it cannot be listed, or one is not UTF-8.
pub(super) fn names(directory: &Path) -> Option<Vec<String>> {
    let entries = directory.read_dir().ok()?;
    let names = entries.map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names = names.collect::<Option<Vec<String>>>()?;
    names.sort();
    Some(names)
}
