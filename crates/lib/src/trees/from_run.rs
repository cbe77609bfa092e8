//! Records of a traced run (`becalm trace --files --json`), for a pack of a program of which nothing was learned.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustc_hash::FxHashSet;
use serde::Deserialize;

use crate::trees::complete;
use crate::trees::learn::Trees;
use crate::trees::record::{Adding, Kind, MOST_PATHS, Record, RecordedPath};

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
            let mut record = complete::unlearned(&command);
            (record.header.starts, record.header.learned) = (1, written);
            records.push(record);
        }
        add(&mut records[at], files, &directories);
    }
    records.iter_mut().for_each(add_beside);
    complete::start_each_other(records.iter_mut());
    Ok(Some(records))
}

/// Adds the files of a run that are in trees.
fn add(record: &mut Record, files: Vec<File>, directories: &[PathBuf]) {
    let mut trees = Trees::default();
    let mut adding = Adding::to(record);
    for File { path, kind, target } in files {
        let is_named = directories.iter().find(|it| Path::new(&path).starts_with(it));
        let is_wanted = directories.is_empty() || is_named.is_some();
        let tree = trees.of(Path::new(&path)).filter(|_| is_wanted).or(is_named.cloned());
        let Some(tree) = tree.filter(|_| RecordedPath::split(&path).is_some()) else { continue };
        adding.record.add_tree(&tree);
        let (kind, mapped) = (Kind::at(Path::new(&path)), kind == "library");
        let (read, uses) = (!mapped, 1);
        adding.add(RecordedPath { path, kind, target, read, mapped, uses, ..Default::default() });
    }
}

/// Adds what is beside these files, on the way to them and in the directories that the run read: it may have looked
/// at all of it. It has no copies.
fn add_beside(record: &mut Record) {
    let above = record.paths.iter().flat_map(|it| {
        let is_file = it.kind != Kind::Directory;
        Path::new(&it.path).ancestors().skip(usize::from(is_file))
    });
    let is_inside = |it: &&Path| record.has_in_tree(it);
    let directories: FxHashSet<PathBuf> = above.filter(is_inside).map(ToOwned::to_owned).collect();
    let mut adding = Adding::to(record);
    for at in directories.iter().flat_map(|it| complete::entries(it)) {
        if let Some(path) = at.to_str().filter(|_| adding.record.paths.len() < MOST_PATHS) {
            let (kind, path, added, kept) = (Kind::at(&at), path.to_owned(), true, true);
            adding.add(RecordedPath { path, kind, added, kept, ..Default::default() });
        }
    }
}
