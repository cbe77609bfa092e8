//! The `farm` strategy: makes a directory of links to the libraries that an object needs, and puts
//! the directory first in the object's run path.
//!
//! The farm of an object is in its own package, at `lib/becalm-farm/<path below the root>`, so that it
//! is removed with the package. The directories of the run path stay after the farm, and an unexpected
//! `dlopen` searches them as before. If one of them may change, the names found after it get another
//! farm right after it.
//!
//! A library's `$ORIGIN` comes from the path by which it was found, not from the target of a link. A
//! library that uses `$ORIGIN` is therefore never linked.

use std::collections::BTreeMap;

use bstr::{BStr, BString, ByteSlice};

use super::applied::{Applied, Verdict};
pub use super::farm_place::{FARMS, list_of};
use super::note::{openable, opened, reason_to_skip};
use super::own::{self, OwnDir, OwnPath, Standing};
use super::plan::{Created, FilePlan, Finding, FindingKind, Plan, PlannedAnswer};
use super::row::{Row, Unit};
use super::settings::Settings;
use crate::closure::{Closure, Subject};
use crate::edit::{Edit, RunPathKind};
use crate::elf::ObjectView;
use crate::fs::{Added, FileSystem};
use crate::loader::glibc::run_path::RunPath;
use crate::loader::load::Role;
use crate::path;
use crate::search::store::below;

/// The row of `farm`.
pub const ROW: Row =
    Row { unit: Unit::ObjectOrClosure(leaf, graph), format: None, file: None, verify, unnamed };

/// Plans the farm of one object, for its own needed strings.
#[must_use]
pub fn leaf(fs: &dyn FileSystem, subject: &Subject, settings: &Settings) -> Plan {
    let site = match Site::of(fs, subject, settings) {
        Ok(site) => site,
        Err(plan) => return plan,
    };
    let own = site.own(subject);
    let (mut found, mut answers, mut findings) = (BTreeMap::new(), Vec::new(), Vec::new());
    for needed in own::names(&subject.view, &settings.dlopen) {
        let mut answer = PlannedAnswer { needed, ..PlannedAnswer::default() };
        match link(&own, answer.needed.as_ref()) {
            Ok((at, path)) => {
                let searched = own.dirs[..at].iter().filter(|dir| !is_fixed(dir));
                answer.hints = searched.map(|dir| dir.written.clone()).collect();
                answer.exact = Some(path.clone());
                found.insert(answer.needed.clone(), (at, path));
            }
            Err(what) => findings.push(Finding::of(&site.path, &answer.needed, what)),
        }
        answers.push(answer);
    }
    // The plain search finds the files of the first directory without a miss.
    if found.values().all(|(at, _)| *at == 0) {
        let mut plan = Plan::only(site.path.as_ref(), nothing_found(own.dirs.is_empty()));
        plan.findings.extend(findings);
        return plan;
    }
    let (farms, value) = site.lay_out(&own, found);
    let mut parts = vec![Plan { findings, ..Plan::default() }];
    parts.extend(farms.iter().map(|(dir, names)| site.create(dir, names)));
    let edits = run_path_edit(&subject.view, value).into_iter().collect();
    parts.push(Plan::of_file(FilePlan { path: site.path, edits, answers }));
    Plan::gather(parts)
}

/// Plans one farm for the whole closure of a program, first in the run path of each object. It must
/// be right for all of them: a name is left out if two objects find different files for it, or if a
/// directory that may change is searched before its file.
#[must_use]
pub fn graph(fs: &dyn FileSystem, closure: &Closure, settings: &Settings) -> Plan {
    let site = match Site::of(fs, &closure.subject, settings) {
        Ok(site) => site,
        Err(plan) => return plan,
    };
    let mut graph = Graph::default();
    let mut objects = Vec::new();
    for (index, object) in closure.load.objects.iter().enumerate() {
        // The loader, audit modules and their libraries are never changed.
        if matches!(object.role, Role::Loader | Role::Audit) || object.namespace != 0 {
            continue;
        }
        let Ok(subject) = Subject::open(fs, object.path.as_ref()) else { continue };
        let Ok(place) = Site::of(fs, &subject, settings) else { continue };
        let own = place.own(&subject);
        graph.add_object(closure, index, &place, &own);
        if !own.dirs.is_empty() {
            objects.push((place.path.clone(), subject, own));
        }
    }
    graph.plan(&site, objects)
}

/// Returns the edit that sets the run path to `value`, or `None` if the run path is equal.
fn run_path_edit(view: &ObjectView, value: BString) -> Option<Edit> {
    if RunPath::of(view).is_some_and(|path| value == path.value) {
        return None;
    }
    Some(Edit::RunPath { kind: RunPathKind::Keep, value: Some(value) })
}

/// The finding of an object, or of the objects of a program, without a link.
fn nothing_found(has_no_run_path: bool) -> FindingKind {
    if has_no_run_path { FindingKind::NoRunPath } else { FindingKind::NothingToSkip }
}

/// One object that may have a farm, and the path of the farm.
struct Site<'a> {
    fs: &'a dyn FileSystem,
    settings: &'a Settings,
    path: BString,
    root: BString,
    /// The absolute path of the farm.
    farm: BString,
}

impl<'a> Site<'a> {
    fn of(fs: &'a dyn FileSystem, subject: &Subject, settings: &'a Settings) -> Result<Self, Plan> {
        let path = super::real_path(fs, subject.path.as_ref());
        if let Some(what) = reason_to_skip(subject) {
            return Err(Plan::only(path.as_ref(), what));
        }
        let Some(package) = settings.stores.package_of(path.as_ref()) else {
            return Err(Plan::only(path.as_ref(), FindingKind::OutsideStores));
        };
        let folders = settings.folders.iter();
        // Only the named folder is changed, even if it is a part of a package.
        let folders = folders
            .filter(|folder| below(&path, folder).is_some() && below(folder, package).is_some());
        // Folders can be nested. The innermost one is the narrowest permission.
        let root = folders.max_by_key(|folder| folder.len());
        let root = root.cloned().unwrap_or_else(|| package.to_owned());
        let below = path[root.len()..].trim_start_with(|c| c == '/');
        let farm: BString = [&root, FARMS.as_bytes(), below].join(&b'/').into();
        if let Err(what) = openable(farm.as_ref()) {
            return Err(Plan::only(path.as_ref(), what));
        }
        Ok(Self { fs, settings, path, root, farm })
    }

    /// Parses the run path of the object, without farms from an earlier run.
    fn own(&self, subject: &Subject) -> OwnPath<'a> {
        let mut own = OwnPath::new(self.fs, subject, self.settings);
        own.dirs.retain(|dir| !dir.is_farm(self.settings));
        own
    }

    /// Returns the farms, each with the names and targets of its links, and the run path with the
    /// farms. `found` has the position of each file's directory, and its path. Directories share a farm
    /// before the first of them if the loader must search the same directories before them.
    fn lay_out(&self, own: &OwnPath<'_>, found: BTreeMap<BString, (usize, BString)>) -> Layout {
        let run_of = |at: usize| own.dirs[..at].iter().filter(|dir| !is_fixed(dir)).count();
        let mut runs: BTreeMap<usize, BTreeMap<BString, BString>> = BTreeMap::new();
        for (name, (at, path)) in found {
            runs.entry(run_of(at)).or_default().insert(name, path);
        }
        let is_single = runs.keys().all(|&run| run == 0);
        let (mut farms, mut elements) = (Vec::new(), Vec::new());
        for (at, dir) in own.dirs.iter().enumerate() {
            let run = run_of(at);
            // At the first directory of a run.
            if let Some(names) = runs.remove(&run) {
                let farm: BString = match is_single {
                    true => self.farm.clone(),
                    false => format!("{}/{}", self.farm, run + 1).into(),
                };
                elements.push(farm.clone());
                farms.push((farm, names));
            }
            elements.push(dir.written.clone());
        }
        (farms, bstr::join(":", &elements).into())
    }

    /// Plans a directory, its parents below the package's root, and its links.
    fn create(&self, dir: &BString, names: &BTreeMap<BString, BString>) -> Plan {
        let mut creations = Vec::new();
        let below = &dir[self.root.len() + 1..];
        let ends = below.find_iter("/").chain([below.len()]);
        for end in ends {
            let path: BString = dir[..self.root.len() + 1 + end].into();
            // A second run finds the directories of the first and plans nothing.
            if self.fs.stat(path.as_ref()).is_err() {
                creations.push(Created { path, kind: Added::Directory });
            }
        }
        for (name, target) in names {
            let path: BString = [dir.as_slice(), b"/", name].concat().into();
            let target = self.target(path.as_ref(), target);
            if !self.is_there(path.as_ref(), target.as_ref()) {
                creations.push(Created { path, kind: Added::Link { target } });
            }
        }
        Plan { creations, ..Plan::default() }
    }

    fn is_in_store(&self, path: &BString) -> bool {
        let real = super::real_path(self.fs, path.as_ref());
        self.settings.stores.package_of(real.as_ref()).is_some()
    }

    /// Returns the target of a link. It is relative if both ends are in the package, because they move
    /// together.
    fn target(&self, link: &BStr, target: &BString) -> BString {
        let real = super::real_path(self.fs, target.as_ref());
        if below(&real, &self.root).is_none() {
            return target.clone();
        }
        let ups = link[self.root.len() + 1..].find_iter("/").count();
        let below = &real[self.root.len() + 1..];
        [&b"../".repeat(ups), below].concat().into()
    }

    fn is_there(&self, link: &BStr, target: &BStr) -> bool {
        let leads = path::of_target(link, target);
        let real = self.fs.canonicalize(link);
        // Two failed resolutions would be equal as well.
        real.is_ok() && real == self.fs.canonicalize(leads.as_ref())
    }
}

/// Farms with their links (name, target), and the run path with the farms.
type Layout = (Vec<(BString, BTreeMap<BString, BString>)>, BString);

/// Returns true for the farm of a whole closure.
fn has_list(fs: &dyn FileSystem, farm: &OwnDir) -> bool {
    let Some(name) = &farm.name else { return false };
    let list = list_of(name.trim_end_with(|c| c == '/').as_bstr());
    list.is_some_and(|list| fs.stat(list.as_ref()).is_ok())
}

/// Returns the answer of an object's own run path if a link can replace it, as [`OwnPath::hit`].
fn link(own: &OwnPath<'_>, needed: &BStr) -> Result<(usize, BString), FindingKind> {
    // A directory that may change stays before the farm with the names that are found after it.
    let (at, path) = own.hit(needed)?;
    // A link would answer before this directory, which may get another file.
    if !is_fixed(&own.dirs[at]) {
        return Err(FindingKind::MutableBefore(own.dirs[at].written.clone()));
    }
    linkable(own, &path)?;
    Ok((at, path))
}

/// Returns an error for a library that would behave differently if a link led to it.
fn linkable(own: &OwnPath<'_>, path: &BString) -> Result<(), FindingKind> {
    let file = opened(own.fs, path)?;
    let Ok(view) = &file.object else { return Err(FindingKind::GivesUp(path.clone())) };
    if uses_origin(view) {
        return Err(FindingKind::UsesOrigin(path.clone()));
    }
    if own::is_variant(own.fs, &own.view, path.as_ref()) {
        return Err(FindingKind::Variant(path.clone()));
    }
    Ok(())
}

/// Returns true if the directory of an object's path has an effect on the libraries it loads.
fn uses_origin(view: &ObjectView) -> bool {
    let Some(dynamic) = &view.dynamic else { return false };
    let paths = [&dynamic.rpath, &dynamic.runpath, &dynamic.audit, &dynamic.depaudit];
    let mut names = dynamic.dependencies.iter().map(|dependency| &dependency.name);
    // Without the `$`, so that `${ORIGIN}` is found too.
    let has_origin = |text: &BString| text.contains_str("ORIGIN");
    paths.into_iter().flatten().any(has_origin)
        || names.any(has_origin)
        || view.notes.resolution.as_ref().is_some_and(|note| note.contains_str("ORIGIN"))
}

/// The names of a whole closure, each with its file or the reason why it is left out.
#[derive(Default)]
struct Graph {
    names: BTreeMap<BString, Result<BString, FindingKind>>,
    findings: Vec<Finding>,
}

impl Graph {
    /// Adds the needed strings of one object.
    fn add_object(&mut self, closure: &Closure, index: usize, site: &Site<'_>, own: &OwnPath<'_>) {
        for (needed, answer) in own::searched(&closure.load, index) {
            let Some(answer) = answer.filter(|answer| answer.role != Role::Loader) else {
                continue;
            };
            let loaded = &answer.path;
            let found = match link(own, needed.as_ref()) {
                Ok((at, path)) => match own.dirs[..at].iter().find(|dir| !is_fixed(dir)) {
                    Some(dir) => Err(FindingKind::MutableBefore(dir.written.clone())),
                    None => Ok(path),
                },
                // If the object's own run path has no answer, that of this program is linked, but
                // only inside a store: a link to a system library would hide a newer one.
                Err(FindingKind::NotByRunPath) if site.is_in_store(loaded) => {
                    linkable(own, loaded).map(|()| loaded.clone())
                }
                Err(what) => Err(what),
            };
            let real = |path: &BString| super::real_path(site.fs, path.as_ref());
            // Two paths to one file are no conflict.
            let conflict = |one: &BString, other: &BString| {
                let (one, other) = (one.clone(), other.clone());
                (real(&one) != real(&other)).then_some(FindingKind::TwoAnswers { one, other })
            };
            let left_out = own::agree(&mut self.names, needed.clone(), found, conflict);
            self.findings.extend(left_out.map(|what| Finding::of(&site.path, needed, what)));
        }
    }

    fn plan(self, site: &Site<'_>, objects: Vec<(BString, Subject, OwnPath<'_>)>) -> Plan {
        let mut parts = vec![Plan { findings: self.findings, ..Plan::default() }];
        let names = self.names.into_iter();
        let names: BTreeMap<BString, BString> =
            names.filter_map(|(name, path)| Some((name, path.ok()?))).collect();
        if names.is_empty() {
            let is_bare = objects.iter().all(|(.., own)| own.dirs.is_empty());
            parts.push(Plan::only(site.path.as_ref(), nothing_found(is_bare)));
            return Plan::gather(parts);
        }
        parts.push(site.create(&site.farm, &names));
        if let Some(list) = list_of(site.farm.as_ref()) {
            let changed = objects.iter().map(|(path, ..)| path).filter(|path| **path != site.path);
            let numbered = changed.enumerate();
            // The links are relative, so that they lead to the same objects below another root.
            let up = "../".repeat(list.find_iter("/").count());
            let target = |path: &BString| [up.as_bytes(), &path[1..]].concat().into();
            let links = numbered.map(|(at, path)| (format!("{at:04}").into(), target(path)));
            parts.push(site.create(&list, &links.collect()));
        }
        for (path, subject, own) in objects {
            let dirs = own.dirs.iter().map(|dir| &dir.written);
            let value = bstr::join(":", [&site.farm].into_iter().chain(dirs));
            let needed_strings = own::names(&subject.view, &[]);
            let answer = |needed: BString| {
                let exact = names.get(&needed).cloned();
                PlannedAnswer { needed, exact, ..PlannedAnswer::default() }
            };
            let answers = needed_strings.into_iter().map(answer).collect();
            let edits = run_path_edit(&subject.view, value.into()).into_iter().collect();
            parts.push(Plan::of_file(FilePlan { path, edits, answers }));
        }
        Plan::gather(parts)
    }
}

fn is_fixed(dir: &OwnDir) -> bool {
    dir.standing == Standing::Fixed
}

/// Checks the links of farms. A name without a link is a finding only if the object's own farm could
/// have a link for it. The farm of a whole closure may lack it, and a library that uses `$ORIGIN` is
/// never linked.
fn verify(applied: &Applied<'_>) -> Vec<(BString, Verdict)> {
    let Applied { fs, own, farms, names, .. } = applied;
    if farms.is_empty() {
        return Vec::new();
    }
    let is_of_closure = farms.iter().any(|farm| has_list(*fs, farm));
    let check = |name: &BString| {
        let needed = name.as_bstr();
        let says = farms.iter().find_map(|farm| own.look(farm, needed).ok()?);
        let verdict = match (&says, own.answer(needed)) {
            // In the farm of a whole closure, the object's own run path may lack the file.
            (Some(_), None) => Verdict::True,
            (Some(_), Some(_)) => applied.compare(needed, says),
            (None, Some((at, is))) if at > 0 && !is_of_closure => {
                link(own, needed).ok()?;
                Verdict::Missing { is }
            }
            (None, _) => return None,
        };
        Some((name.clone(), verdict))
    };
    names.iter().filter_map(check).collect()
}

/// Returns the package of a farm in the run path that is outside the named stores.
fn unnamed(applied: &Applied<'_>) -> Option<BString> {
    let names = applied.own.dirs.iter().filter_map(|dir| dir.name.as_ref());
    let mut names = names.filter(|name| !applied.settings.stores.contain(name));
    names.find_map(|name| Some(name[..name.find(["/", FARMS, "/"].concat())?].into()))
}
