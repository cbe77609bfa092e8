//! Records of a traced run (`becalm trace --files --json`), for a pack of a program of which nothing was learned.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustc_hash::FxHashSet;
use serde::Deserialize;

use crate::trees::learn::Trees;
use crate::trees::record::{Kind, MOST_PATHS, Record, RecordedPath};
use crate::trees::whole;

/// The part of a report that is read.
#[derive(Deserialize)]
struct Run {
    schema: String,
    images: Vec<Image>,
}

#[derive(Deserialize)]
struct Image {
    asked: PathBuf,
    #[serde(default)]
    files: Vec<File>,
}

#[derive(Deserialize)]
struct File {
    path: String,
    kind: String,
    target: Option<String>,
}

/// Returns a record for each program of a run, with its files below these directories, or in trees on network file
/// systems if there are none. Returns `None` if the file is no report of a run with its files.
pub(super) fn records(run: &Path, directories: &[PathBuf]) -> io::Result<Option<Vec<Record>>> {
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
        let at = known.unwrap_or(records.len());
        if known.is_none() {
            let mut record = whole::unlearned(&command);
            (record.header.starts, record.header.learned) = (1, written);
            records.push(record);
        }
        add(&mut records[at], files, &directories);
    }
    records.iter_mut().for_each(add_beside);
    whole::start_each_other(records.iter_mut());
    Ok(Some(records))
}

/// Adds the files of a run that are in trees.
fn add(record: &mut Record, files: Vec<File>, directories: &[PathBuf]) {
    let mut trees = Trees::default();
    let mut known: FxHashSet<String> = record.paths.iter().map(|it| it.path.clone()).collect();
    for File { path, kind, target } in files {
        let is_named = directories.iter().find(|it| Path::new(&path).starts_with(it));
        let tree = match trees.of(Path::new(&path)) {
            Some(tree) if directories.is_empty() || is_named.is_some() => tree,
            _ => match is_named {
                Some(tree) => tree.clone(),
                None => continue,
            },
        };
        let tree = tree.to_string_lossy().into_owned();
        if RecordedPath::split(&path).is_none() || !known.insert(path.clone()) {
            continue;
        }
        if !record.header.trees.contains(&tree) {
            record.header.trees.push(tree);
        }
        let (kind, mapped) = (Kind::at(Path::new(&path)), kind == "library");
        let (read, uses) = (!mapped, 1);
        let new = RecordedPath { path, kind, target, read, mapped, uses, ..Default::default() };
        record.paths.push(new);
    }
}

/// Adds what is beside these files, on the way to them and in the directories that the run read: it may have looked
/// at all of it. It has no copies.
fn add_beside(record: &mut Record) {
    let mut known: FxHashSet<String> = record.paths.iter().map(|it| it.path.clone()).collect();
    let trees: Vec<PathBuf> = record.header.trees.iter().map(PathBuf::from).collect();
    let above = record.paths.iter().flat_map(|it| {
        let is_file = it.kind != Kind::Directory;
        Path::new(&it.path).ancestors().skip(usize::from(is_file))
    });
    let is_inside = |it: &&Path| trees.iter().any(|tree| it.starts_with(tree));
    let directories: FxHashSet<PathBuf> = above.filter(is_inside).map(ToOwned::to_owned).collect();
    for at in directories.iter().flat_map(|it| whole::entries(it)) {
        let Some(path) = at.to_str().filter(|it| known.insert((*it).to_owned())) else {
            continue;
        };
        if record.paths.len() < MOST_PATHS {
            let (kind, path, added, kept) = (Kind::at(&at), path.to_owned(), true, true);
            record.paths.push(RecordedPath { path, kind, added, kept, ..Default::default() });
        }
    }
}
