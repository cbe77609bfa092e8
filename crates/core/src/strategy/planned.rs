//! Predicts a start with an applied plan and compares the load sets.

use std::sync::Arc;

use bstr::{BStr, BString};
use rustc_hash::FxHashMap;

use super::plan::{Finding, FindingKind, Plan};
use crate::closure::{self, Closure, ClosureError, Subject};
use crate::edit::Edit;
use crate::elf::{Dependency, DependencyKind, ObjectView};
use crate::facts::Environment;
use crate::fs::{Additions, FileId, FileSystem, OpenedFile, Overlay};

/// A start with an applied plan, and the differences from the start without it.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The start with the applied plan.
    pub after: Closure,
    /// The objects that are only loaded without the plan, links resolved.
    pub lost: Vec<BString>,
    /// The objects that are only loaded with the plan, links resolved.
    pub gained: Vec<BString>,
    /// True if the objects are the same but their order differs, which changes symbol lookups.
    pub reordered: bool,
    /// The needed strings that only the plan leaves without an answer.
    pub unresolved: Vec<BString>,
}

impl Planned {
    /// Returns a finding if the plan must not be applied: the program would not load the same objects in
    /// the same order.
    #[must_use]
    pub fn finding(&self) -> Option<Finding> {
        let list = |verb: &str, paths: &[BString]| -> Option<String> {
            let first = paths.first()?;
            Some(match paths.len() {
                1 => format!("{first} {verb}"),
                more => format!("{first} and {} more {verb}", more - 1),
            })
        };
        let parts = [
            list("lost", &self.lost),
            list("gained", &self.gained),
            list("no longer found", &self.unresolved),
            self.reordered.then(|| "the order differs".to_owned()),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        let what = FindingKind::LoadedSetChanges(parts.join("; "));
        let path = self.after.subject.path.as_ref();
        (!parts.is_empty()).then(|| Finding::of_file(path, what))
    }
}

/// The changes of a plan, prepared once for the predictions of many starts.
#[derive(Clone, Debug)]
pub struct Outlook<'p> {
    edits: FxHashMap<&'p BStr, &'p [Edit]>,
    added: Arc<Additions>,
}

impl<'p> Outlook<'p> {
    /// Prepares the changes of `plan` on `fs`.
    #[must_use]
    pub fn of(fs: &dyn FileSystem, plan: &'p Plan) -> Self {
        let edited = plan.files.iter().filter(|file| !file.edits.is_empty());
        let edits = edited.map(|file| (file.path.as_ref(), file.edits.as_slice())).collect();
        let mut overlay = Overlay::new(fs);
        for creation in &plan.creations {
            overlay.add(creation.path.as_ref(), creation.kind.clone());
        }
        Self { edits, added: overlay.added }
    }

    /// Returns `fs` with the applied plan. `fs` must have the same files as in [`Outlook::of`].
    #[must_use]
    pub fn over<'a>(&'a self, fs: &'a dyn FileSystem) -> Overlay<'a> {
        let edit = |path: &BStr, file: &OpenedFile| {
            let edits = self.edits.get(path)?;
            let mut view = ObjectView::clone(file.object.as_ref().ok()?);
            for edit in *edits {
                apply(&mut view, edit);
            }
            Some(view)
        };
        let mut overlay = Overlay::new(fs);
        overlay.added = Arc::clone(&self.added);
        overlay.edit = Some(Box::new(edit));
        overlay
    }
}

/// Predicts the start of `before`'s subject with an applied plan and compares the load sets. `fs` is
/// the present file system, `after_fs` that of [`Outlook::over`]. `environment` must be that of
/// `before`, apart from [`Environment::reads`].
///
/// # Errors
/// Returns [`ClosureError`] if the subject cannot be started any more.
pub fn planned(
    fs: &dyn FileSystem,
    after_fs: &dyn FileSystem,
    before: &Closure,
    interpreter: &BStr,
    environment: &Environment,
) -> Result<Planned, ClosureError> {
    let subject = Subject::open(after_fs, before.subject.path.as_ref())?;
    let after = match &before.facts {
        Some(facts) => {
            closure::resolve(after_fs, subject, interpreter, Arc::clone(facts), environment)?
        }
        None => closure::of_static(subject),
    };
    Ok(compare(fs, before, after))
}

/// Makes an edit of the note, the interpreter or the dynamic section in what was read of an object.
pub fn apply(view: &mut ObjectView, edit: &Edit) {
    let is_needed =
        |it: &Dependency, name: &BString| it.kind == DependencyKind::Needed && it.name == *name;
    match (edit, &mut view.dynamic) {
        (Edit::ResolutionNote(note), _) => view.notes.resolution.clone_from(note),
        (Edit::Interpreter(path), _) => view.interpreter = Some(path.clone()),
        (Edit::RunPath { kind, value }, Some(dynamic)) => {
            kind.set(value.clone(), &mut dynamic.rpath, &mut dynamic.runpath)
        }
        (Edit::ReplaceNeeded { from, to }, Some(dynamic)) => {
            for it in dynamic.dependencies.iter_mut().filter(|it| is_needed(it, from)) {
                it.name.clone_from(to);
            }
        }
        // `becalm-rewrite` puts an added `DT_NEEDED` before the others.
        (Edit::AddNeeded(name), Some(dynamic))
            if !dynamic.dependencies.iter().any(|it| is_needed(it, name)) =>
        {
            let dependency = Dependency { kind: DependencyKind::Needed, name: name.clone() };
            dynamic.dependencies.insert(0, dependency);
        }
        (Edit::RemoveNeeded(name), Some(dynamic)) => {
            dynamic.dependencies.retain(|it| !is_needed(it, name))
        }
        (Edit::Audit(list), Some(dynamic)) => dynamic.audit.clone_from(list),
        (Edit::Soname(name), Some(dynamic)) => dynamic.soname = Some(name.clone()),
        // No strategy makes the other edits.
        _ => {}
    }
}

/// Compares two load sets. Returns the paths that only the old one has, those that only the new one has, and true
/// if the same files are in another order, which is the scope of symbol lookups.
#[must_use]
pub fn differences(
    old: &[(FileId, BString)],
    new: &[(FileId, BString)],
) -> (Vec<BString>, Vec<BString>, bool) {
    let missing_in = |here: &[(FileId, BString)], there: &[(FileId, BString)]| -> Vec<BString> {
        // A link of a farm gives a library another path, so the inodes are compared.
        let is_missing = |(id, _): &&(FileId, BString)| !there.iter().any(|(other, _)| other == id);
        here.iter().filter(is_missing).map(|(_, path)| path.clone()).collect()
    };
    let (lost, gained) = (missing_in(old, new), missing_in(new, old));
    let ids = |list: &[(FileId, BString)]| list.iter().map(|(id, _)| *id).collect::<Vec<_>>();
    let reordered = lost.is_empty() && gained.is_empty() && ids(old) != ids(new);
    (lost, gained, reordered)
}

fn compare(fs: &dyn FileSystem, before: &Closure, after: Closure) -> Planned {
    let (lost, gained, reordered) = differences(&files(before), &files(&after));
    let [lost, gained] = [lost, gained]
        .map(|paths| paths.iter().map(|path| super::real_path(fs, path.as_ref())).collect());
    let were: Vec<&BStr> = before.unresolved();
    let is_new = |needed: &&BStr| !were.contains(needed);
    let unresolved = after.unresolved().into_iter().filter(is_new).map(ToOwned::to_owned).collect();
    Planned { lost, gained, reordered, unresolved, after }
}

/// Returns the files of the load set in load order, without the loader.
fn files(closure: &Closure) -> Vec<(FileId, BString)> {
    use crate::loader::load::Role;
    let objects = closure.load.objects.iter().filter(|object| object.role != Role::Loader);
    objects.map(|object| (object.id, object.path.clone())).collect()
}
