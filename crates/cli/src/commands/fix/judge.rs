//! Each program's start as it would be with the plan carried out: what would be left of its
//! storm, and whether it would load the same objects. What would change a program is taken out
//! of the plan.

use std::sync::Arc;

use becalm_core::carrier::planned::{Planned as Foreseen, overlay, planned_on};
use becalm_core::carrier::{Finding, What};
use becalm_core::closure::Closure;
use becalm_core::cost::Storm;
use becalm_core::fs::{Changes, FileSystem, Overlay};
use bstr::BString;
use rayon::prelude::*;
use rustc_hash::FxHashSet;

use super::Start;
use super::loader::loader;
use super::plan::{Planned, Planner, Program};
use crate::flags::CarrierName;
use crate::progress::Progress;

/// How often a plan is cut back before it is given up: taking an object's edits out may bring
/// to light that another's hung on them.
const ATTEMPTS: usize = 8;

/// Programs foreseen with one look at the directories they share.
const IN_A_SESSION: usize = 16;

/// What was foreseen of one program.
enum Verdict {
    /// It loads the same.
    Same(Storm),
    /// It does not; the files of its closure that the plan changes, and why.
    Changed(Vec<BString>, Finding),
}

/// Judges the plan by every program among the targets, and cuts it back to what harms none.
pub(super) fn judge(planner: &Planner<'_>, all: &mut Planned) -> Vec<Start> {
    let mut refused: Vec<Finding> = Vec::new();
    for _ in 0..ATTEMPTS {
        let verdicts = foresee(planner, all);
        let mut guilty: FxHashSet<BString> = FxHashSet::default();
        for verdict in &verdicts {
            if let Verdict::Changed(files, finding) = verdict {
                guilty.extend(files.iter().cloned());
                refused.push(finding.clone());
            }
        }
        if guilty.is_empty() {
            all.plan.findings.extend(refused);
            return starts(all, verdicts);
        }
        for file in all.plan.files.iter_mut().filter(|file| guilty.contains(&file.path)) {
            file.edits.clear();
        }
    }
    // Nothing harmless could be found in it.
    for file in &mut all.plan.files {
        file.edits.clear();
    }
    all.plan.creations.clear();
    all.plan.findings.extend(refused);
    all.programs
        .iter()
        .map(|program| Start {
            path: program.target.shown.clone(),
            before: program.storm,
            after: None,
        })
        .collect()
}

fn starts(all: &Planned, verdicts: Vec<Verdict>) -> Vec<Start> {
    let pairs = all.programs.iter().zip(verdicts);
    pairs
        .map(|(program, verdict)| Start {
            path: program.target.shown.clone(),
            before: program.storm,
            after: match verdict {
                Verdict::Same(storm) => Some(storm),
                Verdict::Changed(..) => None,
            },
        })
        .collect()
}

fn foresee(planner: &Planner<'_>, all: &Planned) -> Vec<Verdict> {
    let progress = Progress::new(all.programs.len());
    // Once for all programs: a plan may be as long as the store.
    let changes = {
        let session = planner.assumed.fs.session();
        overlay(&planner.mapped(&session), &all.plan).changes()
    };
    let some = |programs: &[Program]| -> Vec<Verdict> {
        let session = planner.assumed.fs.session();
        let fs = planner.mapped(&session);
        let one = |program: &Program| {
            let verdict = of_program(planner, &fs, &changes, program, all);
            progress.tick();
            verdict
        };
        programs.iter().map(one).collect()
    };
    let verdicts = all.programs.par_chunks(IN_A_SESSION).flat_map_iter(some).collect();
    progress.finish();
    verdicts
}

fn of_program(
    planner: &Planner<'_>,
    fs: &dyn FileSystem,
    changes: &Arc<Changes>,
    Program { target, closure, storm }: &Program,
    all: &Planned,
) -> Verdict {
    let now = || Verdict::Same(*storm);
    let Some(interpreter) = loader(closure) else { return now() };
    if planner.asked.with == CarrierName::Audit {
        // The model knows no answers of an audit module: those of the index are the search's.
        return Verdict::Same(super::audit::foreseen(closure, &all.plan));
    }
    let environment = planner.environment(true);
    let after_fs = Overlay::with(fs, Arc::clone(changes));
    match planned_on(fs, &after_fs, closure, interpreter, &environment) {
        Ok(foreseen) => match foreseen.finding() {
            None => Verdict::Same(Storm::of(&foreseen.after.load)),
            Some(finding) => Verdict::Changed(changed_files(fs, closure, &foreseen, all), finding),
        },
        Err(error) => {
            let path = target.inside.clone();
            let what = What::LoadedSetChanges(error.to_string());
            let files = all.plan.files.iter().map(|file| file.path.clone()).collect();
            Verdict::Changed(files, Finding { path, needed: None, what })
        }
    }
}

/// The files of a program's start, as it is and as it would be, that the plan changes.
fn changed_files(
    fs: &dyn FileSystem,
    before: &Closure,
    foreseen: &Foreseen,
    all: &Planned,
) -> Vec<BString> {
    let objects = before.load.objects.iter().chain(&foreseen.after.load.objects);
    let files: FxHashSet<BString> =
        objects.filter_map(|object| fs.canonicalize(object.path.as_ref()).ok()).collect();
    let edited = all.plan.files.iter().filter(|file| !file.edits.is_empty());
    edited.filter(|file| files.contains(&file.path)).map(|file| file.path.clone()).collect()
}
