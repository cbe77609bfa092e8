//! Completes the record of a pack: with the files of the command itself, what links lead to, the directories on the
//! way, the state of each path and the names in each directory; with whole trees if they are named, also what no start
//! has looked up yet. Makes the records of a traced run (`becalm trace --files --json`), for a program of which nothing
//! was learned.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;
use std::{fs, io};

use becalm_core::path::normal;
use becalm_host::tree::look::{self, Facts, Identity, Numbers};
use rustix::fs::CWD;
use serde::Deserialize;

use crate::path::path_bytes;
use crate::run::making::files_of_start;
use crate::run::program::{self, Program};
use crate::trees::check::is_settled;
use crate::trees::learn::Trees;
use crate::trees::record::{
    Adding, Copied, Header, Kind, MOST_PATHS, PathState, Record, RecordedPath, target_of,
};
use crate::trees::started::MOST_PROGRAMS;
use crate::trees::{in_parallel, learn};

/// Adds to records the files of the commands themselves and what is in the tree now, and makes the copies that are
/// missing.
pub(super) fn complete<'a>(records: impl Iterator<Item = &'a mut Record>, folder: &Path) {
    let mut records: Vec<&mut Record> = records.collect();
    for record in &mut records {
        add_program(record);
        add_targets(record);
        add_directories(record);
        record.finish(folder);
        add_states(record);
    }
    let seen = Instant::now();
    for record in records {
        add_copies(record, folder, seen);
        record.finish(folder);
    }
}

/// Makes the copies that are missing, and drops those of other contents and of privileged programs.
fn add_copies(record: &mut Record, folder: &Path, seen: Instant) {
    let identities: Vec<Option<Identity>> =
        record.paths.iter().map(|path| path.state.as_ref()?.identity()).collect();
    learn::copy_wanted(record, folder, (&identities, seen), true);
    for (path, identity) in record.paths.iter_mut().zip(identities) {
        let is_same = |copy: &Copied| identity.is_none_or(|it| it == copy.of);
        path.copy = path.copy.take().filter(is_same).filter(|_| !path.is_privileged());
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
    let started = record.header.programs.clone();
    let programs = programs.chain(started.into_iter().map(PathBuf::from));
    let all = programs.map(|it| (it, false)).chain(libraries.iter().cloned().map(|it| (it, true)));
    let mut adding = Adding::to(record);
    for (file, mapped) in all {
        let Some(path) = file.to_str().map(ToOwned::to_owned) else { continue };
        if adding.record.has_in_tree(&file) && file.symlink_metadata().is_ok() {
            let (target, read, added) = (target_of(&file), !mapped, true);
            let new = RecordedPath { path, target, read, mapped, added, ..Default::default() };
            if let Some(known) = adding.add(new) {
                known.read |= read;
                known.mapped |= mapped;
                known.kept &= !known.added;
            }
        }
    }
}

/// Adds the files to which links lead that programs read or the loader maps, link by link.
fn add_targets(record: &mut Record) {
    let mut adding = Adding::to(record);
    let mut at = 0;
    while let Some(link) = adding.record.paths.get(at).cloned() {
        at += 1;
        let Some(target) = link.target.as_ref().filter(|_| link.is_used()) else { continue };
        let Some(above) = Path::new(&link.path).parent() else { continue };
        let Ok(path) = String::from_utf8(normal(&path_bytes(&above.join(target))).into()) else {
            continue;
        };
        if adding.record.has_in_tree(Path::new(&path)) {
            let (target, read, mapped) = (target_of(Path::new(&path)), link.read, link.mapped);
            let added = true;
            adding.add(RecordedPath { path, target, read, mapped, added, ..Default::default() });
        }
    }
}

/// Adds the trees and the directories on the way to each path.
fn add_directories(record: &mut Record) {
    let directories = directories(record);
    let mut adding = Adding::to(record);
    for path in directories.into_iter().filter_map(|it| it.into_os_string().into_string().ok()) {
        let kind = Kind::Directory;
        adding.add(RecordedPath { path, kind, added: true, ..Default::default() });
    }
}

/// Returns the directories of a record, on the way to its paths, and its trees.
fn directories(record: &Record) -> BTreeSet<PathBuf> {
    let above = record.paths.iter().flat_map(|it| {
        let is_file = it.kind != Kind::Directory;
        Path::new(&it.path).ancestors().skip(usize::from(is_file))
    });
    let inside = above.filter(|it| record.has_in_tree(it));
    inside.chain(record.header.trees.iter().map(Path::new)).map(ToOwned::to_owned).collect()
}

/// Looks at all paths of a record, and adds their states. Each call waits for the file system.
pub(super) fn add_states(record: &mut Record) {
    let directories = directories(record);
    let all: Vec<&PathBuf> = directories.iter().collect();
    let is_lost = in_parallel(&all, |it| it.metadata().is_err() && it.is_symlink());
    let lost: Vec<&PathBuf> =
        all.into_iter().zip(is_lost).filter_map(|(it, is_lost)| is_lost.then_some(it)).collect();
    let states = in_parallel(&record.paths, |path| state_of(path, &directories, &lost));
    for (path, (kind, state)) in record.paths.iter_mut().zip(states) {
        (path.kind, path.state) = (kind, state);
    }
}

/// Returns the kind and the state of what is at a path of a record with these directories. Those that are links and
/// lead nowhere are `lost`: what is below one can appear anywhere.
fn state_of(
    recorded: &RecordedPath,
    directories: &BTreeSet<PathBuf>,
    lost: &[&PathBuf],
) -> (Kind, Option<PathState>) {
    let path = Path::new(&recorded.path);
    let is_absent = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    let facts = match look::at(CWD, path, false) {
        Ok(facts) => facts,
        Err(error) if is_absent(&error) && !lost.iter().any(|it| path.starts_with(it)) => {
            return (Kind::Absent, None);
        }
        Err(_) => return (Kind::Other, None),
    };
    let kind = Kind::of(&facts);
    let target = if kind == Kind::Link { target_of(path) } else { None };
    let is_other_link = kind == Kind::Link && (target.is_none() || target != recorded.target);
    if kind == Kind::Other || is_other_link {
        return (Kind::Other, None);
    }
    // What another link leads to is not in the tree, or may change by another name.
    let followed = target.zip(path.parent()).and_then(|(target, above)| {
        let facts = look::at(CWD, path, true).ok()?;
        let is_known = |it: &Path| directories.contains(it);
        is_settled(&above.join(target), &facts, is_known).then(|| state(facts))
    });
    let names = (kind == Kind::Directory).then(|| names(path)).flatten();
    (kind, Some(PathState { found: state(facts), followed, names }))
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

/// Returns a record of a command of which nothing was learned.
pub(super) fn unlearned(command: &Path) -> Record {
    let command = command.to_string_lossy().into_owned();
    Record { header: Header { command, ..Header::default() }, ..Record::default() }
}

/// Lets each of the commands of these records be one that the others start: if there are too many, those that use
/// trees.
pub(super) fn start_each_other<'a>(records: impl Iterator<Item = &'a mut Record>) {
    let mut records: Vec<&mut Record> = records.collect();
    records.sort_by_key(|record| record.paths.is_empty());
    let commands: Vec<String> = records.iter().map(|it| it.header.command.clone()).collect();
    for Record { header, .. } in &mut records {
        for other in commands.iter().filter(|it| **it != header.command) {
            if !header.programs.contains(other) && header.programs.len() < MOST_PROGRAMS {
                header.programs.push(other.clone());
            }
        }
    }
}

/// True if a command, or what its starts looked up, is in a directory.
pub(super) fn is_of(record: &Record, directory: &Path) -> bool {
    let trees = record.header.trees.iter().map(Path::new);
    Path::new(&record.header.command).starts_with(directory)
        || trees.into_iter().any(|tree| tree.starts_with(directory) || directory.starts_with(tree))
}

/// Adds everything in a directory to a record. Returns the files that are left out, because a record has no more
/// paths, or their names are not UTF-8; the directory if it has no more trees.
pub(super) fn add_whole(record: &mut Record, directory: &Path) -> Vec<String> {
    let tree = Trees::default().of(&directory.join("any")).unwrap_or_else(|| directory.to_owned());
    if !record.add_tree(&tree) {
        return vec![directory.to_string_lossy().into_owned()];
    }
    let mut adding = Adding::to(record);
    let (mut left, mut left_out) = (vec![directory.to_owned()], Vec::new());
    while let Some(path) = left.pop() {
        let kind = Kind::at(&path);
        if kind == Kind::Directory {
            left.extend(entries(&path));
        }
        let name = path.to_str().filter(|it| RecordedPath::split(it).is_some());
        let Some(name) = name.filter(|_| adding.record.paths.len() < MOST_PATHS) else {
            left_out.push(path.to_string_lossy().into_owned());
            continue;
        };
        if kind != Kind::Other {
            let (target, path) = (target_of(&path), name.to_owned());
            adding.add(RecordedPath { path, kind, target, added: true, ..Default::default() });
        }
    }
    left_out
}

/// Returns the paths in a directory, the last one first.
pub(super) fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort_by(|a, b| b.cmp(a));
    paths
}

/// The part of a report of a traced run that is read.
#[derive(Deserialize)]
struct Run {
    schema: String,
    images: Vec<Image>,
}

#[derive(Deserialize)]
struct Image {
    asked: PathBuf,
    #[serde(default)]
    files: Vec<Used>,
}

#[derive(Deserialize)]
struct Used {
    path: String,
    kind: String,
    target: Option<String>,
}

/// Returns a record for each program of a run, with its files below these directories, or in trees on network file
/// systems if there are none. Returns `None` if the file is no report of a run with its files.
pub(super) fn of_run(run: &Path, directories: &[PathBuf]) -> io::Result<Option<Vec<Record>>> {
    let parsed = serde_json::from_slice(&fs::read(run)?).ok();
    let written = u64::try_from(fs::metadata(run)?.mtime()).unwrap_or_default();
    let is_run = |it: &Run| {
        it.schema == "becalm/trace/1" && it.images.iter().any(|image| !image.files.is_empty())
    };
    let Some(parsed) = parsed.filter(is_run) else { return Ok(None) };
    let directories = directories.iter().map(std::path::absolute);
    let directories: Vec<PathBuf> = directories.collect::<io::Result<_>>()?;
    let mut records: Vec<Record> = Vec::new();
    for Image { asked, files } in parsed.images {
        let command = std::path::absolute(&asked)?;
        let name = command.to_string_lossy();
        let known = records.iter().position(|it| it.header.command == name);
        let at = known.unwrap_or_else(|| {
            let mut record = unlearned(&command);
            (record.header.starts, record.header.learned) = (1, written);
            records.push(record);
            records.len() - 1
        });
        add_used(&mut records[at], files, &directories);
    }
    records.iter_mut().for_each(add_beside);
    start_each_other(records.iter_mut());
    Ok(Some(records))
}

/// Adds the files of a run that are in trees.
fn add_used(record: &mut Record, files: Vec<Used>, directories: &[PathBuf]) {
    let mut trees = Trees::default();
    let mut adding = Adding::to(record);
    for Used { path, kind, target } in files {
        let is_named = directories.iter().find(|it| Path::new(&path).starts_with(it));
        let is_wanted = directories.is_empty() || is_named.is_some();
        let tree = trees.of(Path::new(&path)).filter(|_| is_wanted).or(is_named.cloned());
        let tree = tree.filter(|_| RecordedPath::split(&path).is_some());
        if !tree.is_some_and(|tree| adding.record.add_tree(&tree)) {
            continue;
        }
        let (kind, mapped) = (Kind::at(Path::new(&path)), kind == "library");
        let (read, uses) = (!mapped, 1);
        adding.add(RecordedPath { path, kind, target, read, mapped, uses, ..Default::default() });
    }
}

/// Adds what is beside these files, on the way to them and in the directories that the run read: it may have looked
/// at all of it. It has no copies.
fn add_beside(record: &mut Record) {
    let directories = directories(record);
    let mut adding = Adding::to(record);
    for at in directories.iter().flat_map(|it| entries(it)) {
        if let Some(path) = at.to_str().filter(|_| adding.record.paths.len() < MOST_PATHS) {
            let (kind, path, added, kept) = (Kind::at(&at), path.to_owned(), true, true);
            adding.add(RecordedPath { path, kind, added, kept, ..Default::default() });
        }
    }
}
