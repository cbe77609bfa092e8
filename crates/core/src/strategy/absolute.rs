//! The `absolute` strategy: replaces each `DT_NEEDED` by the absolute path of its answer.
//!
//! The answers come from the object's own start, predicted without `LD_LIBRARY_PATH`, or from the
//! loader itself.

use bstr::{BStr, BString};

use super::applied::{Applied, Verdict};
use super::note::{openable, reason_to_skip};
use super::own;
use super::plan::{FilePlan, Finding, FindingKind, Plan, PlannedAnswer};
pub use super::row::LoaderAnswer;
use super::row::{Row, Unit};
use super::settings::Settings;
use crate::closure::Closure;
use crate::edit::Edit;
use crate::elf::DependencyKind;
use crate::fs::FileSystem;
use crate::loader::load::{LoadedObject, Reason, Resolution, Role};
use crate::path;

/// The row of `absolute`.
pub const ROW: Row =
    Row { unit: Unit::Start(plan), format: None, file: None, verify, unnamed: |_| None };

/// Plans the subject of a closure. If `answers` are given, they replace those of the closure, and
/// needed strings without one stay unchanged.
#[must_use]
pub fn plan(
    fs: &dyn FileSystem,
    closure: &Closure,
    answers: Option<&[LoaderAnswer]>,
    settings: &Settings,
) -> Plan {
    let path = super::real_path(fs, closure.subject.path.as_ref());
    if let Some(what) = reason_to_skip(&closure.subject) {
        return Plan::only(path.as_ref(), what);
    }
    let planner = Planner { fs, closure, settings, answers };
    let mut plan = Plan::default();
    let mut file = FilePlan { path, edits: Vec::new(), answers: Vec::new() };
    for resolution in planner.searched() {
        let needed = resolution.needed.clone();
        let exact = match planner.answer(resolution) {
            Ok(path) => {
                file.edits.push(Edit::ReplaceNeeded { from: needed.clone(), to: path.clone() });
                Some(path)
            }
            Err(what) => {
                plan.findings.push(Finding::of(&file.path, &needed, what));
                None
            }
        };
        file.answers.push(PlannedAnswer { needed, exact, hints: Vec::new() });
    }
    file.answers.sort_by(|a, b| a.needed.cmp(&b.needed));
    plan.files.push(file);
    plan
}

struct Planner<'a> {
    fs: &'a dyn FileSystem,
    closure: &'a Closure,
    settings: &'a Settings,
    answers: Option<&'a [LoaderAnswer]>,
}

impl Planner<'_> {
    /// Returns the resolutions of the subject's `DT_NEEDED` without a slash, each needed string once.
    fn searched(&self) -> Vec<&Resolution> {
        let mut searched: Vec<&Resolution> = Vec::new();
        for resolution in &self.closure.load.resolutions {
            // The subject is the first object of the load set.
            let is_searched = resolution.needed_by == 0
                && resolution.reason == Reason::Dependency(DependencyKind::Needed)
                && !resolution.needed.contains(&b'/');
            if is_searched && !searched.iter().any(|known| known.needed == resolution.needed) {
                searched.push(resolution);
            }
        }
        searched
    }

    fn answer(&self, resolution: &Resolution) -> Result<BString, FindingKind> {
        let needed: &BStr = resolution.needed.as_ref();
        if needed.is_empty() {
            return Err(FindingKind::EmptyNeeded);
        }
        if self.settings.keep.contains(needed) {
            return Err(FindingKind::Kept);
        }
        let path = self.path_of(resolution)?;
        openable(path.as_ref())?;
        if own::is_variant(self.fs, &self.closure.subject.view, path.as_ref()) {
            return Err(FindingKind::Variant(path));
        }
        Ok(path)
    }

    /// Returns the path by which the loader opened the answer.
    fn path_of(&self, resolution: &Resolution) -> Result<BString, FindingKind> {
        let objects = &self.closure.load.objects;
        if let Some(answers) = self.answers {
            let is_it = |answer: &&LoaderAnswer| {
                answer.needed_by == objects[0].path && answer.needed == resolution.needed
            };
            let answer = answers.iter().rfind(is_it);
            return answer.map(|answer| answer.path.clone()).ok_or(FindingKind::Missing);
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
}

/// Checks the absolute paths among the needed strings.
fn verify(applied: &Applied<'_>) -> Vec<(BString, Verdict)> {
    let check = |needed: &BStr| {
        let name = path::name(needed);
        let fits = applied.is_fit(needed);
        let verdict = match applied.plain(name) {
            // The object may have no run path any more, or one that never had this file.
            None if fits => Verdict::True,
            _ => applied.compare(name, fits.then(|| needed.to_owned())),
        };
        (needed.to_owned(), verdict)
    };
    let needed = applied.subject.view.needed();
    needed.filter(|needed| needed.starts_with(b"/")).map(check).collect()
}
