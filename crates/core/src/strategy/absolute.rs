//! The `absolute` strategy: replaces each `DT_NEEDED` by the absolute path of its answer.
//!
//! The answers come from a closure, predicted without `LD_LIBRARY_PATH`, or from the loader itself. A
//! shared object gets a path only if its own run path finds the same file. If the answer comes from
//! the program instead, the needed string keeps its short name.

use bstr::{BStr, BString};
use rustc_hash::FxHashMap;

use super::note::{openable, reason_to_skip};
use super::own::{self, OwnPath};
use super::plan::{FilePlan, Finding, FindingKind, Plan, PlannedAnswer};
use super::settings::Settings;
use crate::closure::{Closure, Subject};
use crate::edit::Edit;
use crate::elf::DependencyKind;
use crate::fs::{FileSystem, OpenedFile};
use crate::loader::load::{LoadedObject, Reason, Resolution, Role};

/// The objects of a closure to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Only the subject.
    Subject,
    /// Every object of the closure.
    Closure,
}

/// One answer of the loader itself (`--resolve loader`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoaderAnswer {
    /// The path of the requester in the closure.
    pub needed_by: BString,
    /// The needed string.
    pub needed: BString,
    /// The file the loader opened.
    pub path: BString,
}

/// Plans the objects of one closure. If `answers` are given, they replace those of the closure, and
/// needed strings without one stay unchanged.
#[must_use]
pub fn plan(
    fs: &dyn FileSystem,
    closure: &Closure,
    scope: Scope,
    answers: Option<&[LoaderAnswer]>,
    settings: &Settings,
) -> Plan {
    if let Some(what) = reason_to_skip(&closure.subject) {
        let path = super::real_path(fs, closure.subject.path.as_ref());
        return Plan::only(path.as_ref(), what);
    }
    let planner = Planner { fs, closure, settings, answers: answers.map(index) };
    let count = match scope {
        // The program is the first object of the load set.
        Scope::Subject => 1,
        Scope::Closure => closure.load.objects.len(),
    };
    let mut plan = Plan::default();
    for object in 0..count {
        if let Some(part) = planner.object(object) {
            plan.merge(part);
        }
    }
    plan
}

type AnswerIndex<'a> = FxHashMap<(&'a BStr, &'a BStr), &'a BStr>;

fn index(answers: &[LoaderAnswer]) -> AnswerIndex<'_> {
    answers.iter().map(|a| ((a.needed_by.as_ref(), a.needed.as_ref()), a.path.as_ref())).collect()
}

struct Planner<'a> {
    fs: &'a dyn FileSystem,
    closure: &'a Closure,
    settings: &'a Settings,
    answers: Option<AnswerIndex<'a>>,
}

impl Planner<'_> {
    /// Plans one object. Returns `None` for objects that are never changed: the loader, audit modules
    /// and their libraries.
    fn object(&self, index: usize) -> Option<Plan> {
        let object = &self.closure.load.objects[index];
        if object.role == Role::Loader || object.role == Role::Audit || object.namespace != 0 {
            return None;
        }
        let subject = self.subject(index)?;
        let path = super::real_path(self.fs, object.path.as_ref());
        if reason_to_skip(&subject).is_some() {
            return None;
        }
        // The subject needs no check of its own run path: its answers are those of its own start.
        let own =
            (index != 0).then(|| OwnPath::new(self.fs, path.as_ref(), &subject, self.settings));
        let mut plan = Plan::default();
        let mut file = FilePlan { path, edits: Vec::new(), answers: Vec::new() };
        for resolution in self.searched(index) {
            self.plan_one(resolution, own.as_ref(), &mut file, &mut plan.findings);
        }
        file.answers.sort_by(|a, b| a.needed.cmp(&b.needed));
        plan.files.push(file);
        Some(plan)
    }

    fn subject(&self, index: usize) -> Option<Subject> {
        if index == 0 {
            return Some(self.closure.subject.clone());
        }
        Subject::open(self.fs, self.closure.load.objects[index].path.as_ref()).ok()
    }

    /// Returns the resolutions of an object's `DT_NEEDED` without a slash, each needed string once.
    fn searched(&self, index: usize) -> Vec<&Resolution> {
        let mut searched: Vec<&Resolution> = Vec::new();
        for resolution in &self.closure.load.resolutions {
            let is_searched = resolution.needed_by == index
                && resolution.reason == Reason::Dependency(DependencyKind::Needed)
                && !resolution.needed.contains(&b'/');
            if is_searched && !searched.iter().any(|known| known.needed == resolution.needed) {
                searched.push(resolution);
            }
        }
        searched
    }

    fn plan_one(
        &self,
        resolution: &Resolution,
        own: Option<&OwnPath<'_>>,
        file: &mut FilePlan,
        findings: &mut Vec<Finding>,
    ) {
        let needed = resolution.needed.clone();
        let exact = match self.answer(resolution, own) {
            Ok(path) => {
                file.edits.push(Edit::ReplaceNeeded { from: needed.clone(), to: path.clone() });
                Some(path)
            }
            Err(what) => {
                let needed = Some(needed.clone());
                findings.push(Finding { path: file.path.clone(), needed, what });
                None
            }
        };
        file.answers.push(PlannedAnswer { needed, exact, hints: Vec::new() });
    }

    fn answer(
        &self,
        resolution: &Resolution,
        own: Option<&OwnPath<'_>>,
    ) -> Result<BString, FindingKind> {
        let needed: &BStr = resolution.needed.as_ref();
        if needed.is_empty() {
            return Err(FindingKind::EmptyNeeded);
        }
        if self.settings.keep.contains(needed) {
            return Err(FindingKind::Kept);
        }
        let path = self.path_of(resolution)?;
        // Another program that loads this object may find another file.
        if let Some(own) = own {
            let found = own.answer(needed).map(|(_, path)| path);
            if !found.is_some_and(|found| self.same_file(found.as_ref(), path.as_ref())) {
                return Err(FindingKind::OfThisProgram(path));
            }
        }
        openable(path.as_ref())?;
        if own::is_variant(self.fs, &self.closure.subject.view, path.as_ref()) {
            return Err(FindingKind::Variant(path));
        }
        Ok(path)
    }

    /// Returns the path by which the loader opened the answer.
    fn path_of(&self, resolution: &Resolution) -> Result<BString, FindingKind> {
        let objects = &self.closure.load.objects;
        if let Some(answers) = &self.answers {
            let requester = &objects[resolution.needed_by];
            let key = (requester.path.as_ref(), resolution.needed.as_ref());
            return answers.get(&key).map(|path| (*path).to_owned()).ok_or(FindingKind::Missing);
        }
        let answer = resolution.answer.object().map(|index| &objects[index]);
        match answer {
            Some(LoadedObject { role: Role::Loader, .. }) => Err(FindingKind::Kept),
            // Without the preload another object would answer.
            Some(LoadedObject { role: Role::Preload, path, .. }) => {
                Err(FindingKind::OfThisProgram(path.clone()))
            }
            Some(object) => Ok(object.path.clone()),
            None => Err(FindingKind::Missing),
        }
    }

    fn same_file(&self, one: &BStr, other: &BStr) -> bool {
        let id =
            |path: &BStr| self.fs.open(path).ok().map(|file: std::sync::Arc<OpenedFile>| file.id);
        one == other || id(one).is_some_and(|one| Some(one) == id(other))
    }
}
