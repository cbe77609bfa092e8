//! Reverts the changes of a strategy, byte for byte (`becalm undo`).
//!
//! All information is in the files themselves: an edited object has its old bytes in a trailer, its
//! run path names its directory of links, and a loader cache names its author.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use becalm_core::elf;
use becalm_core::strategy::farm;
use becalm_host::write::{Existing, WriteOptions, is_on_its_way};
use becalm_host::{WalkOptions, find_objects, open_regular};
use bstr::{BString, ByteSlice};
use rayon::prelude::*;
use rustc_hash::FxHashSet;
use serde::Serialize;

use crate::fix::audit;
use crate::index::file::is_index;
use crate::json::{self, lossy};
use crate::path::{path_bytes, path_of, real};
use crate::problem::Problem;
use crate::progress::Progress;
use crate::words::words;
use crate::writing::making::{is_of_package, is_our_index, lies_in_farms, package_files};
use crate::writing::removing::{Remover, folders_in, list_of};
use crate::writing::{Changed, Editor, Outcome, revert};

/// How files are reverted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// True if nothing is written.
    pub dry_run: bool,
    /// How files are written.
    pub writing: WriteOptions,
}

/// The report of a revert: the JSON document of `becalm undo`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// True if this was a dry run.
    pub dry_run: bool,
    /// True if an interrupt ended the work early.
    pub interrupted: bool,
    /// The named files, and the edited ones below named folders.
    pub files: Vec<Changed>,
    /// Removed farms, loader caches and indexes that becalm had made.
    pub removed: Vec<Changed>,
    /// Loader caches that are kept.
    pub kept: Vec<Kept>,
    /// Files and folders that could not be examined.
    #[serde(rename = "errors")]
    pub problems: Vec<Problem>,
}

/// A loader cache that is kept, because it answers for objects of its package that were not named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Kept {
    /// The loader cache.
    #[serde(serialize_with = "lossy")]
    pub path: BString,
    /// The number of objects of its package that it answers for and that were not named.
    pub others: usize,
}

json::schema!(Report, "becalm/undo/1");

impl Report {
    /// Returns true if a file could not be read or reverted.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        let mut files = self.files.iter().chain(&self.removed);
        !self.problems.is_empty() || files.any(Changed::has_failed)
    }
}

/// The objects and files to revert.
#[derive(Debug, Default)]
struct Found {
    /// Objects, each with whether the user named it.
    objects: Vec<(PathBuf, bool)>,
    /// Loader caches.
    caches: Vec<PathBuf>,
    /// As in [`Report::kept`].
    kept: Vec<Kept>,
    problems: Vec<Problem>,
    /// Directories in which packages have their farms.
    farms: Vec<PathBuf>,
    /// Directories of packages that an interrupted run was making or removing.
    places: Vec<PathBuf>,
    /// Folders in which an interrupted run left files.
    littered: Vec<PathBuf>,
}

/// Reverts the files among the paths and below the folders among them. An error of a single file is
/// part of the report.
#[must_use]
pub fn undo(paths: &[PathBuf], options: &Options, progress: &dyn Progress) -> Report {
    let mut found = find(paths);
    let mut editor = Editor::new(options.writing, progress);
    editor.dry_run = options.dry_run;
    editor.if_full = (!options.writing.in_place).then_some("undo --in-place needs no room");
    if !options.dry_run {
        editor.clean(&found.littered);
    }
    found.add_listed();
    let paths: Vec<PathBuf> = found.objects.iter().map(|(path, _)| path.clone()).collect();
    // Reverting restores the run path too, so it is read before.
    let before: Vec<Made> = paths.par_iter().map(|path| Made::of(path)).collect();
    let done = editor.change(&paths, |_, reader| revert(reader));
    let mut remover = Remover::new(&editor);
    // After the objects are restored: until then their run paths name these directories.
    let in_use = remove_made(&mut remover, &paths, &done, &before);
    for cache in &found.caches {
        remover.remove(cache, is_of_package);
    }
    for farms in &found.farms {
        remover.sweep(farms, &in_use);
        remover.remove_if_empty(farms);
    }
    for place in &found.places {
        remover.remove_if_empty(place);
    }
    let removed = remover.removed;
    let told = found.objects.iter().zip(done);
    let told = told.filter(|((_, named), done)| *named || done.outcome != Outcome::Unchanged);
    Report {
        dry_run: options.dry_run,
        interrupted: editor.is_interrupted(),
        files: told.map(|(_, done)| done).collect(),
        removed,
        kept: found.kept,
        problems: found.problems,
    }
}

/// Removes the files made for each object that is restored. Returns those that other objects still
/// use.
fn remove_made(
    remover: &mut Remover<'_>,
    paths: &[PathBuf],
    done: &[Changed],
    before: &[Made],
) -> FxHashSet<PathBuf> {
    let still = before.iter().zip(done).filter(|(_, done)| !done.is_safe());
    let named: FxHashSet<PathBuf> = still.flat_map(|(made, _)| made.named.clone()).collect();
    for ((path, done), made) in paths.iter().zip(done).zip(before) {
        let is_free = |dir: &Path| !named.iter().any(|named| names(named, dir));
        for farm in made.own.iter().filter(|farm| is_free(farm)) {
            remover.remove_farm(farm);
        }
        let is_named = made.names_index && !done.is_safe();
        let beside = audit::index_beside(&real(path));
        if !is_named && !done.has_failed() && is_index(&beside) {
            remover.remove(&beside, is_our_index);
        }
    }
    // The list of a farm that is still in use is needed to restore the other objects.
    let lists: Vec<PathBuf> = named.iter().filter_map(|farm| list_of(farm)).collect();
    let in_use = named.into_iter().chain(lists);
    // A run path may name a farm through links.
    in_use.flat_map(|dir| [dir.canonicalize().ok(), Some(dir)]).flatten().collect()
}

/// The changes that `becalm fix` made for one object.
struct Made {
    /// The farms that its run path names.
    named: Vec<PathBuf>,
    /// The farm at the object's own place, whether its run path names it or not.
    own: Vec<PathBuf>,
    /// True if its `DT_AUDIT` names the index beside it.
    names_index: bool,
}

impl Made {
    fn of(path: &Path) -> Self {
        let real = real(path);
        let dynamic = dynamic_of(path);
        let index = path_bytes(&audit::index_beside(&real));
        let names_index = dynamic.as_ref().is_some_and(|dynamic| {
            // The entry is a list separated by colons (glibc `audit_list_add_dynamic_tag`).
            let mut list = dynamic.audit.iter().flat_map(|list| list.split_str(":"));
            list.any(|module| index == module)
        });
        let run_path = dynamic.as_ref().and_then(elf::Dynamic::run_path);
        let dirs = run_path.into_iter().flat_map(|list| list.split_str(":")).map(path_of);
        let named = dirs.filter(|dir| lies_in_farms(dir)).collect();
        Self { named, own: own_farms(&real), names_index }
    }
}

/// Returns the possible farms of an object by its path, below each of the directories above it.
fn own_farms(object: &Path) -> Vec<PathBuf> {
    let farm = |root: &Path| Some(root.join(farm::FARMS).join(object.strip_prefix(root).ok()?));
    let farms = object.ancestors().skip(1).filter_map(farm);
    farms.filter(|farm| farm.is_dir()).collect()
}

/// True if `element` of a run path is the farm, or one of the parts that it is split into. In
/// another root, the element has the end of the farm's path.
fn names(element: &Path, farm: &Path) -> bool {
    let is_farm = |element: &Path| match element.strip_prefix("/") {
        Ok(below) => farm.ends_with(below),
        Err(_) => false,
    };
    is_farm(element) || element.parent().is_some_and(is_farm)
}

impl Found {
    /// Keeps the caches that answer for objects which are not named: a cache belongs to its
    /// package.
    fn keep_caches_of_others(&mut self, named: &[PathBuf]) {
        let named: Vec<PathBuf> = named.iter().map(|path| real(path)).collect();
        let is_named = |path: &Path| named.iter().any(|named| path.starts_with(named));
        self.caches.retain(|cache| {
            let package = cache.parent().and_then(Path::parent).map(Path::to_owned);
            let package = package.filter(|_| !is_named(&real(cache)));
            let walked = find_objects(package.as_slice(), WalkOptions::default());
            let others = walked.objects.iter().map(|object| &object.path);
            // The loader uses the cache for an object with a run path.
            let has_run_path = |it: &Path| dynamic_of(it).is_some_and(|it| it.run_path().is_some());
            let others = others.filter(|path| !is_named(&real(path)) && has_run_path(path)).count();
            if others > 0 {
                self.kept.push(Kept { path: path_bytes(cache), others });
            }
            others == 0
        });
    }

    /// Adds the objects whose run paths were changed to name the farms of these objects and
    /// packages, as `becalm fix --closure` does.
    fn add_listed(&mut self) {
        let own = self.objects.par_iter().flat_map_iter(|(path, _)| own_farms(&real(path)));
        let own: Vec<PathBuf> = own.collect();
        let below = self.farms.iter().flat_map(|farms| farms_below(farms));
        let farms: BTreeSet<PathBuf> = own.into_iter().chain(below).collect();
        let found = self.objects.iter().filter_map(|(path, _)| path.canonicalize().ok());
        let mut known: FxHashSet<PathBuf> = found.collect();
        for farm in &farms {
            let list = list_of(farm).and_then(|list| fs::read_dir(list).ok());
            for entry in list.into_iter().flatten().flatten() {
                // The object may have been removed since.
                let Ok(object) = entry.path().canonicalize() else { continue };
                let is_changed = || Made::of(&object).named.iter().any(|dir| names(dir, farm));
                if !known.contains(&object) && is_changed() {
                    known.insert(object.clone());
                    self.objects.push((object, false));
                }
            }
        }
    }
}

/// Returns the farms with a list, below a package's directory of farms.
fn farms_below(farms: &Path) -> Vec<PathBuf> {
    let Some(any) = list_of(&farms.join("any")) else { return Vec::new() };
    let lists = any.parent().unwrap_or(&any);
    let farm = |list: PathBuf| list.strip_prefix(lists).ok().map(|below| farms.join(below));
    innermost(lists).into_iter().filter_map(farm).collect()
}

/// Returns the folders below a folder that have no folder, or itself.
fn innermost(dir: &Path) -> Vec<PathBuf> {
    match folders_in(dir) {
        below if below.is_empty() => vec![dir.to_owned()],
        below => below.iter().flat_map(|dir| innermost(dir)).collect(),
    }
}

/// Finds objects and loader caches among the paths and below the folders among them.
fn find(paths: &[PathBuf]) -> Found {
    let mut found = Found::default();
    for path in paths {
        match path.metadata() {
            Err(error) => found.problems.push(Problem::new(path_bytes(path), words(&error))),
            Ok(about) if about.is_dir() => add_folder(path, &mut found),
            Ok(_) if package_files().any(|file| path.ends_with(file.below)) => {
                found.caches.push(path.clone());
            }
            Ok(_) => {
                found.caches.extend(caches_of(path));
                found.objects.push((path.clone(), true));
            }
        }
    }
    for made in [&mut found.caches, &mut found.farms] {
        let mut known = FxHashSet::default();
        made.retain(|path| known.insert(real(path)));
        made.sort();
    }
    found.keep_caches_of_others(paths);
    found
}

/// Returns becalm's files that answer for an object: those of the packages it is in.
fn caches_of(object: &Path) -> Vec<PathBuf> {
    real(object).ancestors().skip(1).flat_map(caches_in).collect()
}

/// Returns becalm's files in a package.
fn caches_in(package: &Path) -> impl Iterator<Item = PathBuf> {
    let is_ours = |path: &PathBuf| {
        path.is_file() && fs::read(path).is_ok_and(|bytes| is_of_package(&Existing::File(bytes)))
    };
    package_files().map(move |file| package.join(file.below)).filter(is_ours)
}

fn add_folder(folder: &Path, found: &mut Found) {
    let options = WalkOptions { folders: true, ..WalkOptions::default() };
    let walked = find_objects(&[folder.to_owned()], options);
    found.littered.extend(walked.littered);
    found.caches.extend(caches_of(folder));
    found.objects.extend(walked.objects.into_iter().map(|object| (object.path, false)));
    found.problems.extend(walked.errors.iter().map(Problem::from));
    let Ok(real) = folder.canonicalize() else { return };
    // A package may be any number of levels below the folder.
    for package in walked.folders.iter().filter(|dir| !lies_in_farms(&dir.join("any"))) {
        add_package(package, &real, found);
    }
}

/// Adds the files that becalm made in a package, if they are below `folder`: a link of the package
/// may lead to another one.
fn add_package(package: &Path, folder: &Path, found: &mut Found) {
    let is_below = |path: &Path| path.starts_with(folder);
    // Without links and absolute, as the farms of objects are: each is removed and reported once.
    let farms = package.join(farm::FARMS);
    let farms = farms.is_dir().then(|| farms.canonicalize().ok()).flatten();
    found.farms.extend(farms.filter(|farms| is_below(farms)));
    let places = ["etc", "lib"].map(|name| package.join(name));
    found.places.extend(places.into_iter().filter(|place| is_on_its_way(place)));
    let is_inside = |cache: &PathBuf| cache.canonicalize().is_ok_and(|cache| is_below(&cache));
    found.caches.extend(caches_in(package).filter(is_inside));
}

fn dynamic_of(object: &Path) -> Option<elf::Dynamic> {
    let file = open_regular(object).ok()?;
    elf::parse(&object::ReadCache::new(file)).ok()?.dynamic
}
