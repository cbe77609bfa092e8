//! The `absolute` strategy: replaces each `DT_NEEDED` by the absolute path of its answer.
//!
//! The answers come from the object's own start, predicted without `LD_LIBRARY_PATH`, or from the
//! loader itself.

use bstr::{BStr, BString};

use super::applied::{Applied, Verdict};
use super::note::{openable, reason_to_skip};
use super::own;
use super::plan::{FilePlan, Finding, FindingKind, Plan, PlannedAnswer};
use super::row::{LoaderAnswers, Row, Unit};
use super::settings::{self, Settings};
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
    answers: Option<&LoaderAnswers>,
    settings: &Settings,
) -> Plan {
    let path = super::real_path(fs, closure.subject.path.as_ref());
    if let Some(what) = reason_to_skip(&closure.subject) {
        return Plan::only(path.as_ref(), what);
    }
    let mut plan = Plan::default();
    let mut file = FilePlan { path, edits: Vec::new(), answers: Vec::new() };
    for resolution in &closure.load.resolutions {
        let needed = &resolution.needed;
        // The subject is the first object of the load set.
        let is_searched = resolution.needed_by == 0
            && resolution.reason == Reason::Dependency(DependencyKind::Needed)
            && !needed.contains(&b'/');
        if !is_searched || file.answers.iter().any(|known| known.needed == *needed) {
            continue;
        }
        let mut planned = PlannedAnswer { needed: needed.clone(), ..PlannedAnswer::default() };
        match answer(fs, closure, answers, settings, resolution) {
            Ok(to) => {
                planned.exact = Some(to.clone());
                file.edits.push(Edit::ReplaceNeeded { from: needed.clone(), to });
            }
            Err(what) => plan.findings.push(Finding::of(&file.path, needed, what)),
        }
        file.answers.push(planned);
    }
    file.answers.sort_by(|a, b| a.needed.cmp(&b.needed));
    plan.files.push(file);
    plan
}

/// Returns the path by which the loader opened the answer.
fn answer(
    fs: &dyn FileSystem,
    closure: &Closure,
    answers: Option<&LoaderAnswers>,
    settings: &Settings,
    resolution: &Resolution,
) -> Result<BString, FindingKind> {
    let needed: &BStr = resolution.needed.as_ref();
    if needed.is_empty() {
        return Err(FindingKind::EmptyNeeded);
    }
    if settings.keep.iter().any(|pattern| settings::matches(pattern, needed)) {
        return Err(FindingKind::Kept);
    }
    let path = if let Some(answers) = answers {
        answers.get(needed).ok_or(FindingKind::Missing)?
    } else {
        let index = resolution.answer.object().ok_or(FindingKind::Missing)?;
        let LoadedObject { role, path, .. } = &closure.load.objects[index];
        match role {
            Role::Loader => return Err(FindingKind::Kept),
            // Without the preload another object would answer.
            Role::Preload => return Err(FindingKind::OfThisProgram(path.clone())),
            _ => path,
        }
    };
    openable(path.as_ref())?;
    if own::is_variant(fs, &closure.subject.view, path.as_ref()) {
        return Err(FindingKind::Variant(path.clone()));
    }
    Ok(path.clone())
}

/// Checks the absolute paths among the needed strings.
fn verify(applied: &Applied<'_>) -> Vec<(BString, Verdict)> {
    let check = |needed: &BStr| {
        let name = path::name(needed);
        let fits = applied.is_fit(needed);
        let verdict = match applied.own.answer(name) {
            // The object may have no run path any more, or one that never had this file.
            None if fits => Verdict::True,
            _ => applied.compare(name, fits.then(|| needed.to_owned())),
        };
        (needed.to_owned(), verdict)
    };
    let needed = applied.subject.view.needed();
    needed.filter(|needed| needed.starts_with(b"/")).map(check).collect()
}
