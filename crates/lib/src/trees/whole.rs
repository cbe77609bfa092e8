//! Whole trees in a pack: also what no start has looked up yet.

use std::fs;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashSet;

use crate::trees::complete;
use crate::trees::learn::Trees;
use crate::trees::record::{Header, Kind, MOST_PATHS, Record, RecordedPath};
use crate::trees::started::MOST_PROGRAMS;

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
/// paths, or their names are not UTF-8.
pub(super) fn add(record: &mut Record, directory: &Path) -> Vec<String> {
    let tree = Trees::default().of(&directory.join("any")).unwrap_or_else(|| directory.to_owned());
    let tree = tree.to_string_lossy().into_owned();
    if !record.header.trees.contains(&tree) {
        record.header.trees.push(tree);
    }
    let mut known: FxHashSet<String> = record.paths.iter().map(|it| it.path.clone()).collect();
    let (mut left, mut left_out) = (vec![directory.to_owned()], Vec::new());
    while let Some(path) = left.pop() {
        let kind = Kind::at(&path);
        if kind == Kind::Directory {
            left.extend(entries(&path));
        }
        let name = path.to_str().filter(|it| RecordedPath::split(it).is_some());
        let Some(name) = name.filter(|_| record.paths.len() < MOST_PATHS) else {
            left_out.push(path.to_string_lossy().into_owned());
            continue;
        };
        if kind == Kind::Other || !known.insert(name.to_owned()) {
            continue;
        }
        let target = complete::target_of(&path);
        let path = name.to_owned();
        record.paths.push(RecordedPath { path, kind, target, added: true, ..Default::default() });
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
