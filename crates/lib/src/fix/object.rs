//! The plan of one object, or of one start, by the unit of the strategy.

use becalm_core::closure::{Closure, SubjectKind};
use becalm_core::edit::Edit;
use becalm_core::facts::Format;
use becalm_core::fs::{FileSystem, MappedFs};
use becalm_core::strategy::row::Unit;
use becalm_core::strategy::{FilePlan, FindingKind, Plan, patchelf, real_path};

use crate::fix::options::Resolve;
use crate::fix::planner::Planner;
use crate::targets::{Problem, Target};

/// Plans the strategy for an object with its closure.
pub(super) fn plan(
    planner: &Planner<'_>,
    fs: &MappedFs<'_>,
    target: &Target,
    closure: &Closure,
    problems: &mut Vec<Problem>,
) -> Plan {
    let row = planner.row();
    match row.unit {
        Unit::Object(_)
            if planner.options.compat.is_some() && row.format == Some(Format::Notes) =>
        {
            as_patchelf(fs, closure)
        }
        Unit::ObjectOrClosure(_, plan) if planner.options.closure => {
            plan(fs, closure, &planner.settings)
        }
        Unit::Object(plan) | Unit::ObjectOrClosure(plan, _) => {
            plan(fs, &closure.subject, &planner.settings)
        }
        Unit::Start(plan) => {
            let told = match planner.options.resolve {
                Resolve::Static => None,
                Resolve::Loader => match crate::fix::loader::answers(target, closure) {
                    Ok(told) => Some(told),
                    Err(error) => {
                        problems.push(Problem::new(target.shown.clone(), error));
                        return Plan::default();
                    }
                },
            };
            plan(fs, closure, told.as_ref(), &planner.settings)
        }
        Unit::Program => {
            let stores = planner.options.assume.store.paths();
            match crate::fix::audit::plan_audit(&planner.assumed.fs, closure, &stores) {
                Ok(plan) => plan,
                Err(error) if target.named => {
                    problems.push(Problem::new(target.shown.clone(), error));
                    Plan::default()
                }
                // Libraries in a folder never have an audit entry.
                Err(_) if closure.subject.kind != SubjectKind::Program => Plan::default(),
                Err(error) => {
                    let what = FindingKind::NoAuditEntry(error.to_string());
                    Plan::only(closure.subject.path.as_ref(), what)
                }
            }
        }
        // A package's objects are planned together. An index changes no object.
        Unit::Package(_) | Unit::Stores => Plan::default(),
    }
}

/// Plans the note that patchelf would write.
fn as_patchelf(fs: &dyn FileSystem, closure: &Closure) -> Plan {
    let subject = &closure.subject;
    let path = real_path(fs, subject.path.as_ref());
    let Some(descriptor) = patchelf::descriptor(fs, &subject.view) else {
        return Plan::only(path.as_ref(), FindingKind::NoRunPath);
    };
    let edits = match subject.view.notes.resolution.as_ref() == Some(&descriptor) {
        true => Vec::new(),
        false => vec![Edit::ResolutionNote(Some(descriptor))],
    };
    Plan::of_file(FilePlan { path, edits, answers: Vec::new() })
}
