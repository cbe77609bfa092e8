//! `becalm undo`: takes back what `becalm fix` did, byte for byte.
//!
//! Nothing but the files themselves says what was done: an edited object carries its old bytes
//! in a trailer, its run path names its directory of links, and a loader cache says who wrote
//! it.

use std::ffi::OsStr;
use std::fs::{self, ReadDir};
use std::io::Write;
use std::iter;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use becalm_core::carrier::farm;
use becalm_core::elf;
use becalm_host::write::{Existing, Reader, is_on_its_way};
use becalm_host::{WalkOptions, find_objects};
use becalm_rewrite::State;
use bstr::{BString, ByteSlice};
use rayon::prelude::*;
use rustc_hash::FxHashSet;

use super::fix::audit;
use super::jobs;
use super::making::{is_our_cache, is_our_farm, is_our_index, lies_in_farms, made_above, settle};
use super::targets::Problem;
use super::writing::{Done, Editor, Outcome, Proposal, reason};
use crate::exit_code::ExitStatus;
use crate::flags::{UndoFlags, When};
use crate::output::{self, Look, Stdout, path_bytes, words, words_of_host};

/// All that is told of a run.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Whether nothing was written because that was asked for.
    pub dry_run: bool,
    /// What became of each file; of those below a folder, the edited ones alone.
    pub files: Vec<(BString, Done)>,
    /// What became of each directory of links and loader cache.
    pub removed: Vec<(BString, Done)>,
    /// What could not be looked at.
    pub problems: Vec<Problem>,
    /// Whether a signal ended the work early.
    pub interrupted: bool,
}

/// What is to be taken back.
#[derive(Debug, Default)]
struct Found {
    /// Objects, and whether the user named each.
    objects: Vec<(PathBuf, bool)>,
    /// Loader caches.
    caches: Vec<PathBuf>,
    problems: Vec<Problem>,
    /// Where the packages have their farms.
    farms: Vec<PathBuf>,
    /// Directories of packages that a killed run was making or taking away.
    places: Vec<PathBuf>,
    /// Folders in which a killed run left something.
    littered: Vec<PathBuf>,
}

/// Takes back what the flags ask for.
///
/// # Errors
/// Where nothing can be done at all. What is wrong with single files is told on stderr and in
/// the status.
pub(crate) fn run(asked: &UndoFlags, color: When) -> Result<ExitStatus> {
    jobs::limit(asked.jobs)?;
    let found = find(&asked.paths);
    let editor = Editor::new(&asked.writing)?;
    if !asked.dry_run {
        editor.clean(&found.littered);
    }
    let mut report =
        Report { dry_run: asked.dry_run, problems: found.problems, ..Report::default() };
    let paths: Vec<PathBuf> = found.objects.iter().map(|(path, _)| path.clone()).collect();
    // A farm is known by the run path of its object, which must be read before it is changed.
    let farms: Vec<Vec<PathBuf>> = paths.par_iter().map(|path| farms_of(path)).collect();
    let done = match asked.dry_run {
        true => editor.rehearse(&paths, |_, reader| take_back(reader)),
        false => editor.change(&paths, |_, reader| take_back(reader)),
    };
    let mut seen: FxHashSet<PathBuf> = FxHashSet::default();
    let mut in_use: FxHashSet<PathBuf> = FxHashSet::default();
    let mut remover = Remover { editor: &editor, dry_run: asked.dry_run, removed: Vec::new() };
    for (((path, named), done), farms) in found.objects.iter().zip(done).zip(farms) {
        if matches!(done.outcome, Outcome::Written { .. }) {
            let index = audit::index_beside(path);
            if index.is_file() {
                remover.remove(&index, is_our_index);
            }
            // Several objects may have one farm.
            for farm in farms.into_iter().filter(|farm| seen.insert(farm.clone())) {
                remover.remove(&farm, |existing| is_our_farm(&farm, existing));
            }
        } else {
            in_use.extend(farms);
        }
        if *named || done.outcome != Outcome::Unchanged {
            report.files.push((path_bytes(path), done));
        }
    }
    for cache in &found.caches {
        remover.remove(cache, is_our_cache);
    }
    for farms in &found.farms {
        remover.sweep(farms, &in_use);
        remover.remove_if_empty(farms);
    }
    for place in &found.places {
        remover.remove_if_empty(place);
    }
    report.removed = remover.removed;
    report.interrupted = editor.is_interrupted();
    tell(asked, &report, color)?;
    Ok(report.status())
}

/// Objects and loader caches among the paths and below the folders among them.
fn find(paths: &[PathBuf]) -> Found {
    let mut found = Found::default();
    for path in paths {
        match path.metadata() {
            Err(error) => {
                found.problems.push(Problem { path: path_bytes(path), reason: words(&error) });
            }
            Ok(about) if about.is_dir() => add_folder(path, &mut found),
            Ok(_) if path.ends_with("etc/ld.so.cache") => found.caches.push(path.clone()),
            Ok(_) => found.objects.push((path.clone(), true)),
        }
    }
    found
}

fn add_folder(folder: &Path, found: &mut Found) {
    let walked = find_objects(&[folder.to_owned()], WalkOptions::default());
    found.littered.extend(walked.littered);
    found.objects.extend(walked.objects.into_iter().map(|object| (object.path, false)));
    for error in &walked.errors {
        let (path, reason) = words_of_host(error);
        found.problems.push(Problem { path, reason });
    }
    // A package, or a store of packages.
    let packages = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    for package in packages.chain([folder.to_owned()]) {
        let farms = package.join(farm::FARMS);
        if farms.is_dir() {
            found.farms.push(farms);
        }
        let places = ["etc", "lib"].map(|name| package.join(name));
        found.places.extend(places.into_iter().filter(|place| is_on_its_way(place)));
        let cache = package.join("etc/ld.so.cache");
        if fs::read(&cache).is_ok_and(|bytes| is_our_cache(&Existing::File(bytes))) {
            found.caches.push(cache);
        }
    }
}

/// The directories of links of becalm's that an object's run path names.
fn farms_of(path: &Path) -> Vec<PathBuf> {
    let run_path = || {
        let view = elf::parse(&object::ReadCache::new(fs::File::open(path).ok()?)).ok()?;
        let dynamic = view.dynamic?;
        dynamic.runpath.or(dynamic.rpath)
    };
    let run_path = run_path().unwrap_or_default();
    let dirs = run_path.split_str(":").map(|dir| PathBuf::from(OsStr::from_bytes(dir)));
    dirs.filter(|dir| lies_in_farms(dir)).collect()
}

/// The patch that gives a file its old bytes; none where becalm has not changed it.
pub(super) fn take_back(reader: &Reader) -> Result<Proposal, String> {
    let state = becalm_rewrite::state(reader).map_err(|error| error.to_string())?;
    if state == State::Untouched {
        return Ok((None, Vec::new()));
    }
    let patch = becalm_rewrite::undo(reader).map_err(|error| error.to_string())?;
    Ok((Some(patch), Vec::new()))
}

/// Removes what was made beside the files.
struct Remover<'a> {
    editor: &'a Editor,
    dry_run: bool,
    removed: Vec<(BString, Done)>,
}

impl Remover<'_> {
    fn remove(&mut self, path: &Path, ours: impl FnOnce(&Existing) -> bool) {
        if !self.dry_run && !self.editor.is_interrupted() {
            self.mark_parents(path);
        }
        let result = match (self.dry_run, self.editor.is_interrupted()) {
            (_, true) => Ok(Outcome::NotReached),
            (true, _) => Ok(Outcome::Written { old_length: 0, new_length: 0 }),
            _ => self.editor.writer().remove_made(path, ours).map(|removed| match removed {
                true => Outcome::Written { old_length: 0, new_length: 0 },
                false => Outcome::Unchanged,
            }),
        };
        let outcome = result.unwrap_or_else(|error| Outcome::Refused(reason(&error, path)));
        if outcome != Outcome::Unchanged {
            self.removed.push((path_bytes(path), Done { outcome, warnings: Vec::new() }));
        }
        if !self.dry_run {
            self.remove_empty_parents(path);
        }
    }

    /// What a killed run made and no object came to name: all farms below a directory but those
    /// that objects still name.
    fn sweep(&mut self, dir: &Path, in_use: &FxHashSet<PathBuf>) {
        for below in folders_in(dir) {
            self.sweep(&below, in_use);
        }
        let is_free = lies_in_farms(dir) && !in_use.contains(dir) && dir.is_dir();
        if is_free && folders_in(dir).is_empty() {
            self.remove(dir, |existing| is_our_farm(dir, existing));
        }
    }

    /// A place for farms, or for what else is made, that never came to hold any.
    fn remove_if_empty(&self, dir: &Path) {
        if !self.dry_run {
            // Where it cannot be removed it harms nobody.
            let _ = self.editor.writer().remove_empty_dir(dir);
            settle(self.editor, iter::once(dir));
        }
    }

    /// Marks the directories that hold nothing but `path`, which go with it: killed in between,
    /// the next run knows them by that.
    fn mark_parents(&self, path: &Path) {
        let mut held = path;
        for dir in made_above(path) {
            let holds_more = |entries: ReadDir| entries.flatten().any(|it| it.path() != held);
            if fs::read_dir(dir).map_or(true, holds_more) {
                return;
            }
            // Where that fails, an empty directory may stay.
            let _ = self.editor.writer().unsettle_dir(dir);
            held = dir;
        }
    }

    /// The directories that were made for what is gone: up to the place of the farms or of the
    /// cache in its package.
    fn remove_empty_parents(&self, path: &Path) {
        for here in made_above(path).take_while(|_| !self.editor.is_interrupted()) {
            // Not empty: something else lies there.
            if !self.editor.writer().remove_empty_dir(here).unwrap_or(false) {
                break;
            }
        }
        settle(self.editor, made_above(path));
    }
}

fn folders_in(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(|entry| entry.path()).collect()
}

fn tell(asked: &UndoFlags, report: &Report, color: When) -> Result<()> {
    for problem in &report.problems {
        output::note(problem.path.as_ref(), &problem.reason);
    }
    let mut out = Stdout::new();
    if asked.json {
        output::undo::json(&mut out, report)?;
    } else {
        output::undo::text(&mut out, Look::of_stdout(color), report)?;
    }
    out.flush()?;
    Ok(())
}

impl Report {
    fn status(&self) -> ExitStatus {
        let refused = |(_, done): &(BString, Done)| matches!(done.outcome, Outcome::Refused(_));
        if self.interrupted {
            ExitStatus::INTERRUPTED
        } else if !self.problems.is_empty() || self.files.iter().chain(&self.removed).any(refused) {
            ExitStatus::Failure
        } else {
            ExitStatus::Fine
        }
    }
}
