//! `becalm verify INDEX`: asks every question of an index again and lists what the search
//! would answer otherwise now.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;
use becalm_core::elf::Endian;
use becalm_core::index::{Edge, Index, Object, Program, SearchDir};
use becalm_host::OsFs;
use becalm_host::index_store::{BindThreshold, Binding, IndexOptions, OsFingerprints, index_files};
use becalm_lib::index::current::roots;
use becalm_lib::index::file;
use becalm_lib::path::path_bytes;
use becalm_lib::path::path_of;
use becalm_lib::targets::Problem;
use becalm_lib::words::words_of_host;
use bstr::BStr;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::exit_code::ExitStatus;
use crate::terminal::style::{Look, When};
use crate::terminal::{self, Stdout};
use crate::verify::index_report::{Difference, Verified, What};
use crate::verify::index_text;

/// Verifies one index and tells the result.
///
/// # Errors
/// Where the index cannot be read, or is damaged.
pub(crate) fn run_index(path: &Path, json: bool, color: When) -> Result<ExitStatus> {
    let verified = verify(path)?;
    terminal::note_all(&verified.problems);
    let mut out = Stdout::new();
    if json {
        index_text::json(&mut out, &verified)?;
    } else {
        index_text::text(&mut out, Look::of_stdout(color), &verified)?;
    }
    out.flush()?;
    Ok(verified.status())
}

impl Verified {
    /// 1 where anything differs.
    pub(crate) fn status(&self) -> ExitStatus {
        if !self.differences.is_empty() {
            ExitStatus::Finding
        } else if !self.problems.is_empty() {
            ExitStatus::Failure
        } else {
            ExitStatus::Fine
        }
    }
}

/// Asks all questions of an index again.
///
/// # Errors
/// Where the index cannot be read, or is damaged.
pub(crate) fn verify(path: &Path) -> Result<Verified> {
    let file::Whole { target, index: old, .. } = file::read(path)?;
    let stores: Vec<PathBuf> = roots(&old).map(|condition| path_of(condition.path())).collect();
    let named = old.directories.iter().filter(|directory| directory.names.is_some());
    let dirs: Vec<PathBuf> = named.map(|directory| path_of(directory.path.as_ref())).collect();
    let named = old.objects.iter().filter(|object| !object.path.is_empty());
    let programs = old.programs.iter().map(|program| &program.path);
    let paths = named.map(|object| &object.path).chain(programs);
    let files: Vec<PathBuf> = paths.map(|path| path_of(path.as_ref())).collect();
    let files = &files;
    let bound: Vec<PathBuf> =
        old.bound.programs.iter().map(|program| path_of(program.path.as_ref())).collect();
    let only = Some(&bound[..]);
    let bind = Some(Binding { threshold: BindThreshold::ALL, only, environment: None });
    let (stores, dirs) = (&stores, &dirs);
    let options = IndexOptions { stores, dirs, files, bind, ..IndexOptions::default() };
    let indexed = index_files(&OsFs::new(), options);
    let new = indexed.machines.into_iter().find(|machine| machine.target == target);
    let new = new.map(|machine| machine.index).unwrap_or_default();
    let problems = indexed.errors.iter().map(words_of_host);
    // Others stand there for `--update` alone, or for the stores as a whole.
    let answers = old.objects.iter().flat_map(|object| &object.edges);
    let mut believed: FxHashSet<u32> = answers.flat_map(|edge| edge.conditions.clone()).collect();
    let snapshots = old.directories.iter().filter(|directory| directory.names.is_some());
    believed.extend(snapshots.map(|directory| directory.condition));
    believed.extend(old.bound.objects.iter().map(|object| object.condition));
    believed.extend(old.search_dirs.iter().flat_map(|dir| dir.conditions.clone()));
    let fingerprints = OsFingerprints::default();
    let mut differences = differences(&old, &new, target.endian);
    for (at, condition) in old.conditions.iter().enumerate() {
        if believed.contains(&(at as u32)) && !fingerprints.hold(condition) {
            let path = condition.path().to_owned();
            differences.push(Difference { path, what: What::Changed });
        }
    }
    Ok(Verified {
        path: path_bytes(path),
        target,
        objects: old.objects.iter().filter(|object| !object.path.is_empty()).count(),
        edges: old.objects.iter().map(|object| object.edges.len()).sum(),
        stores_changed: roots(&old).any(|condition| !fingerprints.hold(condition)),
        differences,
        problems: problems.map(|(path, reason)| Problem { path, reason }).collect(),
    })
}

fn differences(old: &Index, new: &Index, endian: Endian) -> Vec<Difference> {
    let now: FxHashMap<&BStr, &Object> =
        new.objects.iter().map(|object| (object.path.as_ref(), object)).collect();
    let mut found = Vec::new();
    for was in &old.objects {
        let path: &BStr = was.path.as_ref();
        let mut add = |what| found.push(Difference { path: was.path.clone(), what });
        match now.get(path) {
            None if was.path.is_empty() => {}
            None => add(What::Gone),
            Some(now) if now.run_path != was.run_path => add(What::OtherRunPath),
            Some(now) => of_object(was, now, &mut add),
        }
    }
    of_programs(old, new, &mut found);
    of_search_dirs(old, new, &mut found);
    let other = old.bound.differences(&new.bound, endian).into_iter();
    found.extend(other.map(|path| Difference { path, what: What::Bindings }));
    found
}

/// The directories of each `DT_RPATH`, which answer whoever is loaded below.
fn of_search_dirs(old: &Index, new: &Index, found: &mut Vec<Difference>) {
    let now: FxHashMap<&BStr, &SearchDir> =
        new.search_dirs.iter().map(|dir| (dir.path.as_ref(), dir)).collect();
    // What the guards say is looked at by itself.
    let says = |dir: &SearchDir| (dir.names.clone(), dir.look, dir.conditions.len());
    for was in &old.search_dirs {
        let path: &BStr = was.path.as_ref();
        if now.get(path).is_none_or(|now| says(now) != says(was)) {
            found.push(Difference { path: was.path.clone(), what: What::Names });
        }
    }
}

fn of_object(was: &Object, now: &Object, add: &mut impl FnMut(What)) {
    let answers: FxHashMap<&BStr, &Edge> = now.edges.iter().map(|e| (e.needed(), e)).collect();
    for edge in &was.edges {
        let needed = edge.needed();
        match answers.get(needed) {
            Some(now) if now.path != edge.path => add(What::Answer {
                needed: needed.to_owned(),
                was: edge.path.clone(),
                now: Some(now.path.clone()),
            }),
            Some(now) if conditions(now) != conditions(edge) => {
                add(What::Conditions { needed: needed.to_owned() });
            }
            Some(_) => {}
            None => {
                add(What::Answer { needed: needed.to_owned(), was: edge.path.clone(), now: None })
            }
        }
    }
}

/// Programs that are gone are named with their objects, or are no longer anybody's answer.
fn of_programs(old: &Index, new: &Index, found: &mut Vec<Difference>) {
    let now: FxHashMap<&BStr, &Program> =
        new.programs.iter().map(|program| (program.path.as_ref(), program)).collect();
    for was in &old.programs {
        let path: &BStr = was.path.as_ref();
        let Some(now) = now.get(path) else { continue };
        let mut add = |what| found.push(Difference { path: was.path.clone(), what });
        if was.static_tls != now.static_tls {
            add(What::StaticTls { was: was.static_tls, now: now.static_tls });
        }
        if !was.load_order.is_empty() && was.load_order != now.load_order {
            add(What::LoadOrder);
        }
    }
}

/// What an answer depends on beside its guards, which are looked at by themselves.
fn conditions(edge: &Edge) -> (bool, bool, usize) {
    (edge.before_library_path, edge.look, edge.conditions.len())
}
