//! The `absolute` carrier: each `DT_NEEDED` → the absolute path of what answers it.
//!
//! The answers come from a closure, walked without any `LD_LIBRARY_PATH`, or from what the
//! loader itself said. An object that several programs share may only name what it would find
//! by itself, so that the answer of *this* program, where it is another, stays short.

use bstr::{BStr, BString};
use rustc_hash::FxHashMap;

use super::note::{openable, passed_over};
use super::own::{self, OwnPath};
use super::plan::{FilePlan, Finding, Plan, PlannedAnswer, What};
use super::settings::Settings;
use crate::closure::{Closure, Subject};
use crate::edit::Edit;
use crate::elf::DependencyKind;
use crate::fs::{FileSystem, OpenedFile};
use crate::loader::load::{LoadedObject, Reason, Resolution, Role};

/// Which objects of a closure are changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The file asked for, alone.
    Subject,
    /// Every object of the closure.
    Closure,
}

/// One answer of the loader itself (`--resolve loader`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The asking object, as the closure names it.
    pub needed_by: BString,
    /// The needed string.
    pub needed: BString,
    /// The file the loader opened.
    pub path: BString,
}

/// Plans the objects of one closure. With `told`, the loader's answers are taken, and what it
/// was not asked is left alone.
#[must_use]
pub fn plan(
    fs: &dyn FileSystem,
    closure: &Closure,
    scope: Scope,
    told: Option<&[Told]>,
    settings: &Settings,
) -> Plan {
    if let Some(what) = passed_over(&closure.subject) {
        let path = super::real_path(fs, closure.subject.path.as_ref());
        return Plan::only(path.as_ref(), what);
    }
    let planner = Planner { fs, closure, settings, told: told.map(index) };
    let count = match scope {
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

type ToldIndex<'a> = FxHashMap<(&'a BStr, &'a BStr), &'a BStr>;

fn index(told: &[Told]) -> ToldIndex<'_> {
    told.iter().map(|t| ((t.needed_by.as_ref(), t.needed.as_ref()), t.path.as_ref())).collect()
}

struct Planner<'a> {
    fs: &'a dyn FileSystem,
    closure: &'a Closure,
    settings: &'a Settings,
    told: Option<ToldIndex<'a>>,
}

impl Planner<'_> {
    /// The plan of one object; `None` for those that are nobody's to change: the loader,
    /// audit modules and what they load.
    fn object(&self, index: usize) -> Option<Plan> {
        let object = &self.closure.load.objects[index];
        if object.role == Role::Loader || object.role == Role::Audit || object.namespace != 0 {
            return None;
        }
        let subject = self.subject(index)?;
        let path = super::real_path(self.fs, object.path.as_ref());
        if passed_over(&subject).is_some() {
            return None;
        }
        let own =
            (index != 0).then(|| OwnPath::new(self.fs, path.as_ref(), &subject, self.settings));
        let mut plan = Plan::default();
        let mut file = FilePlan { path, edits: Vec::new(), answers: Vec::new() };
        for resolution in self.questions(index) {
            self.question(resolution, own.as_ref(), &mut file, &mut plan.findings);
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

    /// The needed strings of an object that are searched for, each once.
    fn questions(&self, index: usize) -> Vec<&Resolution> {
        let mut questions: Vec<&Resolution> = Vec::new();
        for resolution in &self.closure.load.resolutions {
            let is_asked = resolution.needed_by == index
                && resolution.reason == Reason::Dependency(DependencyKind::Needed)
                && !resolution.needed.contains(&b'/');
            if is_asked && !questions.iter().any(|known| known.needed == resolution.needed) {
                questions.push(resolution);
            }
        }
        questions
    }

    fn question(
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

    fn answer(&self, resolution: &Resolution, own: Option<&OwnPath<'_>>) -> Result<BString, What> {
        let needed: &BStr = resolution.needed.as_ref();
        if needed.is_empty() {
            return Err(What::EmptyNeeded);
        }
        if self.settings.keep.contains(needed) {
            return Err(What::Kept);
        }
        let path = self.path_of(resolution)?;
        if let Some(own) = own {
            let alone = own.answer(needed).map(|(_, path)| path);
            if !alone.is_some_and(|alone| self.same_file(alone.as_ref(), path.as_ref())) {
                return Err(What::OfThisProgram(path));
            }
        }
        openable(path.as_ref())?;
        let host = &self.closure.subject.view.ident;
        if own::is_variant(self.fs, host, path.as_ref()) {
            return Err(What::Variant(path));
        }
        Ok(path)
    }

    /// The path of what answers, as the loader knows it.
    fn path_of(&self, resolution: &Resolution) -> Result<BString, What> {
        let objects = &self.closure.load.objects;
        if let Some(told) = &self.told {
            let asking = &objects[resolution.needed_by];
            let key = (asking.path.as_ref(), resolution.needed.as_ref());
            return told.get(&key).map(|path| (*path).to_owned()).ok_or(What::Missing);
        }
        let answer = resolution.answer.object().map(|index| &objects[index]);
        match answer {
            Some(LoadedObject { role: Role::Loader, .. }) => Err(What::Kept),
            // The name is the preload's only as long as it is preloaded.
            Some(LoadedObject { role: Role::Preload, path, .. }) => {
                Err(What::OfThisProgram(path.clone()))
            }
            Some(object) => Ok(object.path.clone()),
            None => Err(What::Missing),
        }
    }

    fn same_file(&self, one: &BStr, other: &BStr) -> bool {
        let id =
            |path: &BStr| self.fs.open(path).ok().map(|file: std::sync::Arc<OpenedFile>| file.id);
        one == other || id(one).is_some_and(|one| Some(one) == id(other))
    }
}
