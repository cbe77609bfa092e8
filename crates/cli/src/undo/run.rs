//! `becalm undo`: takes back what `becalm fix` did, byte for byte.
//!
//! Nothing but the files themselves says what was done: an edited object carries its old bytes
//! in a trailer, its run path names its directory of links, and a loader cache says who wrote
//! it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use becalm_core::elf;
use becalm_core::strategy::farm;
use becalm_host::write::{Existing, is_on_its_way};
use becalm_host::{WalkOptions, find_objects};
use becalm_lib::fix::audit;
use becalm_lib::path::path_bytes;
use becalm_lib::targets::Problem;
use becalm_lib::words::{words, words_of_host};
use bstr::{BString, ByteSlice};
use rayon::prelude::*;
use rustc_hash::FxHashSet;

use crate::exit_code::ExitStatus;
use crate::jobs;
use crate::terminal::style::{Look, When};
use crate::terminal::{self, Stdout};
use crate::undo::args::UndoArgs;
use crate::undo::report::Report;
use crate::undo::text;
use crate::writing::making::{is_our_cache, is_our_index, lies_in_farms};
use crate::writing::removing::{Remover, folders_in, list_of};
use crate::writing::{Done, Editor, Outcome, take_back};

/// What is to be taken back.
#[derive(Debug, Default)]
struct Found {
    /// Objects, and whether the user named each.
    objects: Vec<(PathBuf, bool)>,
    /// Loader caches.
    caches: Vec<PathBuf>,
    /// As in [`Report::kept`].
    kept: Vec<(PathBuf, usize)>,
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
pub(crate) fn run(args: &UndoArgs, color: When) -> Result<ExitStatus> {
    jobs::limit(args.jobs)?;
    let mut found = find(&args.paths);
    let advice = (!args.writing.in_place).then_some("undo --in-place needs no room");
    let editor = Editor::new(&args.writing)?.with_advice_if_full(advice);
    if !args.dry_run {
        editor.clean(&found.littered);
    }
    found.add_listed();
    let kept = found.kept.iter().map(|(cache, others)| (path_bytes(cache), *others)).collect();
    let mut report =
        Report { dry_run: args.dry_run, problems: found.problems, kept, ..Report::default() };
    let paths: Vec<PathBuf> = found.objects.iter().map(|(path, _)| path.clone()).collect();
    // The run path is restored with the rest, so it is read before.
    let before: Vec<Made> = paths.par_iter().map(|path| Made::of(path)).collect();
    let done = match args.dry_run {
        true => editor.rehearse(&paths, |_, reader| take_back(reader)),
        false => editor.change(&paths, |_, reader| take_back(reader)),
    };
    let restored = |done: &Done| matches!(done.outcome, Outcome::Written { .. });
    let still = before.iter().zip(&done).filter(|(_, done)| !restored(done));
    let named: FxHashSet<PathBuf> = still.flat_map(|(made, _)| made.named.clone()).collect();
    // The list of a farm that is still named is needed to restore the rest.
    let lists = named.iter().filter_map(|farm| list_of(farm));
    let in_use: FxHashSet<PathBuf> = named.iter().cloned().chain(lists).collect();
    let mut remover = Remover::new(&editor, args.dry_run);
    for ((path, done), made) in paths.iter().zip(&done).zip(&before) {
        let is_free = |dir: &Path| !named.iter().any(|named| names(named, dir));
        for farm in made.own.iter().filter(|farm| is_free(farm)) {
            remover.remove_farm(farm);
        }
        let is_named = made.names_index && !restored(done);
        let beside = audit::index_beside(&path.canonicalize().unwrap_or_else(|_| path.clone()));
        if !is_named
            && !matches!(done.outcome, Outcome::Refused(_))
            && becalm_lib::index::file::is_index(&beside)
        {
            remover.remove(&beside, is_our_index);
        }
    }
    for ((path, named), done) in found.objects.iter().zip(done) {
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
    tell(args, &report, color)?;
    Ok(report.status())
}

/// What `becalm fix` made for one object.
struct Made {
    /// The farms that its run path names.
    named: Vec<PathBuf>,
    /// The farm at the place that is the object's own, named or not.
    own: Vec<PathBuf>,
    /// Whether its `DT_AUDIT` names the index beside it.
    names_index: bool,
}

impl Made {
    fn of(path: &Path) -> Self {
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let view = fs::File::open(path).ok();
        let view = view.and_then(|file| elf::parse(&object::ReadCache::new(file)).ok());
        let dynamic = view.and_then(|view| view.dynamic);
        let index = path_bytes(&audit::index_beside(&real));
        let names_index = dynamic.as_ref().is_some_and(|dynamic| {
            let mut list = dynamic.audit.iter().flat_map(|list| list.split_str(":"));
            list.any(|module| index == module)
        });
        let named = farms_of(dynamic);
        Self { named, own: own_farms(&real), names_index }
    }
}

/// The farm of an object by its place, below any of the directories above it.
fn own_farms(object: &Path) -> Vec<PathBuf> {
    let farm = |root: &Path| Some(root.join(farm::FARMS).join(object.strip_prefix(root).ok()?));
    let farms = object.ancestors().skip(1).filter_map(farm);
    farms.filter(|farm| farm.is_dir()).collect()
}

/// True if `element` of a run path is the farm, or one of the parts that it is split into. Below
/// another root the element has the end of the farm's path.
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
        let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
        let named: Vec<PathBuf> = named.iter().map(real).collect();
        let is_named = |path: &Path| named.iter().any(|named| path.starts_with(named));
        self.caches.retain(|cache| {
            let package = cache.parent().and_then(Path::parent).map(Path::to_owned);
            let package = package.filter(|_| !is_named(&real(cache)));
            let walked = find_objects(package.as_slice(), WalkOptions::default());
            let others = walked.objects.iter().map(|object| &object.path);
            let others = others.filter(|path| !is_named(&real(path)) && has_run_path(path)).count();
            if others > 0 {
                self.kept.push((cache.clone(), others));
            }
            others == 0
        });
    }

    /// Adds the objects whose run paths were changed to name the farms of the objects found and
    /// of the packages found: those of `becalm fix --closure`.
    fn add_listed(&mut self) {
        let own = self.objects.par_iter().flat_map_iter(|(path, _)| {
            own_farms(&path.canonicalize().unwrap_or_else(|_| path.clone()))
        });
        let own: Vec<PathBuf> = own.collect();
        let below = self.farms.iter().flat_map(|farms| farms_below(farms));
        let farms: BTreeSet<PathBuf> = own.into_iter().chain(below).collect();
        let found = self.objects.iter().filter_map(|(path, _)| path.canonicalize().ok());
        let mut known: FxHashSet<PathBuf> = found.collect();
        for farm in &farms {
            let list = list_of(farm).and_then(|list| fs::read_dir(list).ok());
            for entry in list.into_iter().flatten().flatten() {
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

/// The farms that have a list, below a package's place for farms.
fn farms_below(farms: &Path) -> Vec<PathBuf> {
    let any = list_of(&farms.join("any"));
    let Some(lists) = any.and_then(|any| Some(any.parent()?.to_owned())) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let mut dirs = vec![lists.clone()];
    while let Some(dir) = dirs.pop() {
        let below = folders_in(&dir);
        if let (true, Ok(below)) = (below.is_empty(), dir.strip_prefix(&lists)) {
            found.push(farms.join(below));
        }
        dirs.extend(below);
    }
    found
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
            Ok(_) => {
                found.caches.extend(caches_of(path));
                found.objects.push((path.clone(), true));
            }
        }
    }
    found.caches.sort();
    found.caches.dedup();
    found.keep_caches_of_others(paths);
    found
}

/// The loader caches of becalm's that answer for an object: those of the packages it is in.
fn caches_of(object: &Path) -> Vec<PathBuf> {
    let real = object.canonicalize().unwrap_or_else(|_| object.to_owned());
    let caches = real.ancestors().skip(1).map(|dir| dir.join("etc/ld.so.cache"));
    caches.filter(|cache| is_our_cache_at(cache)).collect()
}

fn is_our_cache_at(cache: &Path) -> bool {
    cache.is_file() && fs::read(cache).is_ok_and(|bytes| is_our_cache(&Existing::File(bytes)))
}

fn add_folder(folder: &Path, found: &mut Found) {
    let walked = find_objects(&[folder.to_owned()], WalkOptions::default());
    found.littered.extend(walked.littered);
    found.caches.extend(caches_of(folder));
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
        if is_our_cache_at(&cache) {
            found.caches.push(cache);
        }
    }
}

/// True for an object that the loader takes answers for from its package's cache.
fn has_run_path(object: &Path) -> bool {
    let view = fs::File::open(object).ok();
    let view = view.and_then(|file| elf::parse(&object::ReadCache::new(file)).ok());
    let dynamic = view.and_then(|view| view.dynamic);
    dynamic.is_some_and(|dynamic| dynamic.runpath.is_some() || dynamic.rpath.is_some())
}

/// The directories of links of becalm's that an object's run path names.
fn farms_of(dynamic: Option<elf::Dynamic>) -> Vec<PathBuf> {
    let run_path = dynamic.and_then(|dynamic| dynamic.runpath.or(dynamic.rpath));
    let run_path = run_path.unwrap_or_default();
    let dirs = run_path.split_str(":").map(|dir| PathBuf::from(OsStr::from_bytes(dir)));
    dirs.filter(|dir| lies_in_farms(dir)).collect()
}

fn tell(args: &UndoArgs, report: &Report, color: When) -> Result<()> {
    terminal::note_all(&report.problems);
    let mut out = Stdout::new();
    if args.json {
        text::json(&mut out, report)?;
    } else {
        text::text(&mut out, Look::of_stdout(color), report)?;
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
