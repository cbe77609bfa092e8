//! Predicts each program's start with the plan applied: the remaining search cost, and whether it
//! loads the same objects. Edits that would change a program are removed from the plan.

use becalm_core::cost::{SearchCost, misses_by_object};
use becalm_core::edit::Edit;
use becalm_core::fs::{Added, FileSystem};
use becalm_core::loader::load::LoadedObject;
use becalm_core::strategy::planned::{Outlook, planned};
use becalm_core::strategy::row::PackageFile;
use becalm_core::strategy::{Created, Finding, FindingKind, Plan, real_path};
use bstr::BString;
use rayon::prelude::*;
use rustc_hash::FxHashSet;
use serde::Serialize;

use crate::fix::audit::{Answered, real_program};
use crate::fix::loader::loader;
use crate::fix::plan::{Planned, Program};
use crate::fix::planner::Planner;
use crate::follow::follow;
use crate::json::lossy;
use crate::targets::Target;

/// One program's start, before and after.
#[derive(Clone, Debug, Serialize)]
pub struct Start {
    /// The program, as it is displayed.
    #[serde(serialize_with = "lossy")]
    pub path: BString,
    /// The cost of the search before the plan.
    pub before: SearchCost,
    /// The cost after the plan; none if the plan was refused.
    pub after: Option<SearchCost>,
}

/// How often edits are removed from a plan before it is given up: without one object's edits,
/// another's may turn out to depend on them.
const ATTEMPTS: usize = 8;

/// The number of programs that share one cached view of the directories.
const IN_A_SESSION: usize = 16;

/// The reason why a program does not start with the plan as it does now: it would load other objects, or
/// search longer.
struct Harm {
    /// The files that cause this, links resolved.
    files: FxHashSet<BString>,
    finding: Finding,
    /// True if a file of the start is not the one that was planned.
    replaced: bool,
}

/// The cost of a program's start with the plan.
type Verdict = Result<SearchCost, Box<Harm>>;

/// Predicts every program among the targets with the plan, and reduces the plan until it harms
/// none.
pub fn judge(planner: &Planner<'_>, all: &mut Planned) -> Vec<Start> {
    let unseen = unseen(planner, all);
    let programs = all.programs.len();
    all.programs.extend(unseen);
    let made = planner.options.with.row().file.as_ref();
    let mut refused: Vec<Finding> = Vec::new();
    let mut afters: Vec<Option<SearchCost>> = Vec::new();
    for attempt in 1..=ATTEMPTS {
        let mut guilty: FxHashSet<BString> = FxHashSet::default();
        afters.clear();
        for verdict in foresee(planner, &all.plan, &all.programs) {
            let harm = |harm: Box<Harm>| {
                guilty.extend(harm.files);
                refused.push(harm.finding);
                all.replaced |= harm.replaced;
            };
            afters.push(verdict.map_err(harm).ok());
        }
        if afters.iter().all(Option::is_some) {
            break;
        }
        // If no edit can be blamed for the change, or too many attempts were made, the whole plan
        // is dropped.
        if attempt == ATTEMPTS || !cut(&mut all.plan, made, &guilty) {
            all.plan.withdraw(|_| true);
            all.plan.creations.clear();
            afters.fill(None);
            break;
        }
    }
    all.plan.findings.extend(refused);
    // The libraries that were added as starts are not programs of the report.
    all.programs.truncate(programs);
    starts(&all.programs, afters)
}

/// Returns the libraries with another run path that no program of the targets loads, as starts of
/// their own. The search along the new one may cost more than it saves.
fn unseen(planner: &Planner<'_>, all: &Planned) -> Vec<Program> {
    let session = planner.assumed.fs.session();
    let fs = planner.mapped(&session);
    let real = |path: &BString| real_path(&fs, path.as_ref());
    let objects = all.programs.iter().flat_map(|program| &program.closure.load.objects);
    let seen: FxHashSet<BString> = objects.map(|object| real(&object.path)).collect();
    let is_run_path = |edit: &Edit| matches!(edit, Edit::RunPath { .. });
    let files = all.plan.files.iter().filter(|file| file.edits.iter().any(is_run_path));
    let edited: FxHashSet<&BString> = files.map(|file| &file.path).collect();
    let is_unseen = |target: &&Target| {
        let path = real(&target.inside);
        edited.contains(&path) && !seen.contains(&path)
    };
    let unseen: Vec<&Target> = all.libraries.iter().filter(is_unseen).collect();
    let start = |target: &&Target| {
        let session = planner.assumed.fs.session();
        let (fs, environment) = (planner.mapped(&session), planner.environment(false));
        // Without its loader on this machine it cannot be followed.
        let (closure, _) = follow(planner.assumed, &fs, target, &environment).ok()?.elf()?;
        Some(Program::of(planner, Target::clone(target), closure))
    };
    unseen.par_iter().filter_map(start).collect()
}

/// Predicts the programs' starts after a part of the plan has been written. `planner` reads the
/// files again.
pub fn measure(planner: &Planner<'_>, programs: &[Program]) -> Vec<Start> {
    let session = planner.assumed.fs.session();
    let fs = planner.mapped(&session);
    let now = programs.iter().map(|program| {
        let environment = planner.environment(true);
        let followed = follow(planner.assumed, &fs, &program.target, &environment).ok()?;
        followed.elf().map(|(closure, _)| SearchCost::of(&closure.load))
    });
    starts(programs, now.collect())
}

fn starts(programs: &[Program], afters: Vec<Option<SearchCost>>) -> Vec<Start> {
    let start = |(program, after): (&Program, Option<SearchCost>)| {
        let path = program.target.shown.clone();
        Start { path, before: program.storm, after }
    };
    programs.iter().zip(afters).map(start).collect()
}

/// Removes the edits of the files from a plan; if they have none, the files made in their packages.
/// Returns false if there was nothing to remove.
fn cut(plan: &mut Plan, made: Option<&PackageFile>, guilty: &FxHashSet<BString>) -> bool {
    if plan.withdraw(|file| guilty.contains(file)) {
        return true;
    }
    let before = plan.creations.len();
    let is_read = |creation: &Created| {
        let root = made.and_then(|made| creation.path.strip_suffix(made.below.as_bytes()));
        let of_package = |file: &BString| root.is_some_and(|root| file.starts_with(root));
        matches!(creation.kind, Added::File { .. }) && guilty.iter().any(of_package)
    };
    plan.creations.retain(|creation| !is_read(creation));
    plan.creations.len() < before
}

fn foresee(planner: &Planner<'_>, plan: &Plan, programs: &[Program]) -> Vec<Verdict> {
    if planner.options.with.row().unit.is_index() {
        // The model does not predict audit modules: the index gives the answers of the search.
        let answered = Answered::of(&plan.files);
        let planned: FxHashSet<&BString> = plan.files.iter().map(|file| &file.path).collect();
        let left = |program: &Program| {
            let has_index = planned.contains(&real_program(&program.closure));
            Ok(if has_index { answered.storm_left(&program.closure) } else { program.storm })
        };
        return programs.par_iter().map(left).collect();
    }
    let progress = planner.progress.phase(programs.len());
    let session = planner.assumed.fs.session();
    let outlook = Outlook::of(&planner.mapped(&session), plan);
    let some = |programs: &[Program]| -> Vec<Verdict> {
        let session = planner.assumed.fs.session();
        let fs = planner.mapped(&session);
        let after = outlook.over(&fs);
        let one = |program: &Program| {
            let verdict = of_program(planner, plan, (&fs, &after), program);
            progress(1);
            verdict
        };
        programs.iter().map(one).collect()
    };
    programs.par_chunks(IN_A_SESSION).flat_map_iter(some).collect()
}

/// Predicts one program's start, with the current files and with the plan.
fn of_program(
    planner: &Planner<'_>,
    plan: &Plan,
    (fs, after): (&dyn FileSystem, &dyn FileSystem),
    program: &Program,
) -> Verdict {
    let Program { target, closure, storm, misses } = program;
    let Some(interpreter) = loader(closure) else { return Ok(*storm) };
    let foreseen = planned(fs, after, closure, interpreter, &planner.environment(true));
    let foreseen = foreseen.map_err(|error| {
        let what = FindingKind::LoadedSetChanges(error.to_string());
        let finding = Finding::of_file(target.inside.as_ref(), what);
        let files = real_files(fs, &closure.load.objects);
        Box::new(Harm { files, finding, replaced: false })
    })?;
    // The files of the start, now and with the plan.
    let of_start =
        || real_files(fs, closure.load.objects.iter().chain(&foreseen.after.load.objects));
    if let Some(finding) = foreseen.finding() {
        // The same path leads to another file.
        let replaced = foreseen.lost.iter().any(|path| foreseen.gained.contains(path));
        return Err(Box::new(Harm { files: of_start(), finding, replaced }));
    }
    let load = &foreseen.after.load;
    let cost = SearchCost::of(load);
    let (before, after) = (storm.misses(), cost.misses());
    if after <= before || planner.options.allow_more_misses {
        return Ok(cost);
    }
    // The files to blame are the edited ones that would make more failing calls in their own lookups; if there is none,
    // all of the start.
    let objects = load.objects.iter().zip(misses_by_object(load)).zip(misses);
    let worse = objects.filter(|((_, now), before)| now > *before).map(|((object, _), _)| object);
    let worse = real_files(fs, worse).into_iter().collect();
    let guilty: FxHashSet<BString> = plan.edited_of(worse).into_iter().collect();
    let files = if guilty.is_empty() { of_start() } else { guilty };
    let path = foreseen.after.subject.path.as_ref();
    let finding = Finding::of_file(path, FindingKind::MoreMisses { before, after });
    Err(Box::new(Harm { files, finding, replaced: false }))
}

fn real_files<'a>(
    fs: &dyn FileSystem,
    objects: impl IntoIterator<Item = &'a LoadedObject>,
) -> FxHashSet<BString> {
    let objects = objects.into_iter();
    objects.filter_map(|object| fs.canonicalize(object.path.as_ref()).ok()).collect()
}

#[cfg(test)]
mod tests {
    use becalm_core::edit::Edit;
    use becalm_core::strategy::{FilePlan, Strategy};

    use super::*;

    fn cache(package: &str) -> Created {
        let path = format!("{package}/etc/ld.so.cache").into();
        Created { path, kind: Added::File { bytes: Vec::new().into() } }
    }

    fn edited(path: &str) -> FilePlan {
        let edits = vec![Edit::ResolutionNote(None)];
        FilePlan { path: path.into(), edits, answers: Vec::new() }
    }

    fn start(files: &[&str]) -> FxHashSet<BString> {
        files.iter().map(|&file| file.into()).collect()
    }

    #[test]
    fn edits_are_blamed_before_caches_and_those_of_a_start_alone() {
        let files = vec![edited("/s/a/lib/liba.so"), edited("/s/b/lib/libb.so")];
        let creations = vec![cache("/s/a"), cache("/s/ab")];
        let made = Strategy::Ldcache.row().file.as_ref();
        let mut plan = Plan { files, creations, ..Plan::default() };
        let guilty = start(&["/s/a/lib/liba.so", "/s/p/bin/prog"]);
        assert!(cut(&mut plan, made, &guilty));
        assert_eq!(plan.files.iter().map(|f| f.edits.len()).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(plan.creations.len(), 2);
        assert!(cut(&mut plan, made, &guilty));
        assert_eq!(plan.creations, [cache("/s/ab")], "a package whose name begins alike stays");
        assert!(!cut(&mut plan, made, &guilty), "nothing is left to blame");
    }
}
