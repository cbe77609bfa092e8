//! Plans the strategy for the named files, in parallel.

use anyhow::{Result, bail};
use becalm_core::closure::{Closure, Subject, SubjectKind};
use becalm_core::cost::{SearchCost, misses_by_object};
use becalm_core::fs::{FileSystem, MappedFs};
use becalm_core::strategy::row::Unit;
use becalm_core::strategy::{FindingKind, Plan, real_path};
use bstr::BString;
use rayon::prelude::*;
use rustc_hash::FxHashSet;

use crate::fix::planner::Planner;
use crate::fix::{object, package};
use crate::follow::{Followed, follow_where};
use crate::targets::{Problem, Target};

/// The number of files that share one cached view of the directories.
const IN_A_SESSION: usize = 64;

/// The proposals for all files.
#[derive(Debug, Default)]
pub struct Planned {
    /// The plans of all files, gathered.
    pub plan: Plan,
    /// The programs among the targets, as they start now.
    pub programs: Vec<Program>,
    /// Files that cannot be planned, with the reason.
    pub problems: Vec<Problem>,
    /// True if a file that a program loads was replaced since it was planned.
    pub replaced: bool,
    /// One plan for each file, before they are merged.
    parts: Vec<Plan>,
    /// The objects, if a strategy plans them together.
    subjects: Vec<Subject>,
    /// The libraries among the targets.
    pub(super) libraries: Vec<Target>,
}

/// A program among the targets, and its start as it is now.
#[derive(Debug)]
pub struct Program {
    /// Its file.
    pub target: Target,
    /// Without its probes if only their number is needed.
    pub closure: Closure,
    /// The cost of its search.
    pub storm: SearchCost,
    /// Failing calls by object of the closure.
    pub misses: Vec<u64>,
}

impl Program {
    /// Makes the record of a program for the check of the plan. Only the counts of its probes are
    /// kept, because the probes of a whole store would fill the memory; the misses that an index
    /// leaves are counted from the probes.
    pub(super) fn of(planner: &Planner<'_>, target: Target, mut closure: Closure) -> Self {
        let storm = SearchCost::of(&closure.load);
        let misses = misses_by_object(&closure.load);
        if !planner.row().unit.is_index() {
            closure.load.probes = Vec::new();
        }
        Self { target, closure, storm, misses }
    }
}

/// Plans all files; a file that several paths lead to once.
///
/// # Errors
/// Returns an error if the programs among them cannot have one farm each (`--closure`).
pub fn plan(planner: &Planner<'_>, files: &[Target]) -> Result<Planned> {
    let progress = planner.progress.phase(files.len());
    let some = |files: &[Target]| {
        let session = planner.assumed.fs.session();
        let fs = planner.mapped(&session);
        let mut planned = Planned::default();
        for target in files {
            one(planner, &fs, target, &mut planned);
            progress(1);
        }
        planned
    };
    let planned: Vec<Planned> = files.par_chunks(IN_A_SESSION).map(some).collect();
    drop(progress);
    let mut all = Planned::default();
    for part in planned {
        all.parts.extend(part.parts);
        all.programs.extend(part.programs);
        all.problems.extend(part.problems);
        all.subjects.extend(part.subjects);
        all.libraries.extend(part.libraries);
    }
    let session = planner.assumed.fs.session();
    let fs = planner.mapped(&session);
    if let Unit::Package(plan) = planner.row().unit {
        let subjects = std::mem::take(&mut all.subjects);
        let programs = all.programs.iter().filter(|_| planner.options.closure);
        let closures: Vec<&Closure> = programs.map(|program| &program.closure).collect();
        let plan = |subjects: &[_]| plan(&fs, subjects, &closures, &planner.settings);
        all.parts.push(package::plan(planner, &fs, subjects, plan));
    }
    all.plan = Plan::gather(std::mem::take(&mut all.parts));
    if let (Unit::ObjectOrClosure(leaf, _), true) = (planner.row().unit, planner.options.closure) {
        finish_closures(&fs, &mut all, |subject| leaf(&fs, subject, &planner.settings))?;
    }
    Ok(all)
}

fn one(planner: &Planner<'_>, fs: &MappedFs<'_>, target: &Target, planned: &mut Planned) {
    let target = Target { inside: fs.planned(target.inside.as_ref()), ..target.clone() };
    let environment = planner.environment(false);
    let walks = |kind: SubjectKind| needs_closure(planner, &target) || kind == SubjectKind::Program;
    let closure = match follow_where(planner.assumed, fs, &target, &environment, walks) {
        Ok(Followed::Elf(closure, _)) => *closure,
        Ok(Followed::MachO(_)) if target.named => {
            let reason = "a Mach-O file; strategies are for ELF files";
            return planned.problems.push(Problem::new(target.shown, reason));
        }
        Ok(Followed::MachO(_) | Followed::Nothing) => return,
        Err(error) => return planned.problems.push(Problem::new(target.shown, error)),
    };
    let is_program = closure.subject.kind == SubjectKind::Program;
    let is_later = match planner.row().unit {
        Unit::Package(_) => true,
        // Planned after the programs, if none of them loads it.
        Unit::ObjectOrClosure(..) => planner.options.closure && !is_program && !target.named,
        _ => false,
    };
    if is_later {
        planned.subjects.push(closure.subject.clone());
    } else {
        let plan = object::plan(planner, fs, &target, &closure, &mut planned.problems);
        planned.parts.push(plan);
    }
    if !is_program {
        planned.libraries.push(target);
    } else {
        planned.programs.push(Program::of(planner, target, closure));
    }
}

/// True if a library's plan depends on its whole start. If each object is planned alone, only
/// programs' starts are needed, for the comparison.
fn needs_closure(planner: &Planner<'_>, target: &Target) -> bool {
    match planner.row().unit {
        Unit::Object(_) | Unit::Package(_) | Unit::Stores => false,
        Unit::ObjectOrClosure(..) => planner.options.closure && target.named,
        Unit::Start(_) | Unit::Program => true,
    }
}

/// Gives its own plan to each library that no program of the targets loads.
///
/// # Errors
/// Returns an error if two programs load the same library, whose run path can begin with the farm of
/// one of them only.
fn finish_closures(
    fs: &dyn FileSystem,
    all: &mut Planned,
    leaf: impl Fn(&Subject) -> Plan,
) -> Result<()> {
    if all.plan.findings.iter().any(|finding| finding.what == FindingKind::TwoPlans) {
        bail!(
            "--closure: {} programs share libraries, and a library can have the farm of one \
             program only; name one program, or give each object its own farm (--leaf)",
            all.programs.len()
        );
    }
    let planned: FxHashSet<BString> = all.plan.files.iter().map(|file| file.path.clone()).collect();
    let subjects = std::mem::take(&mut all.subjects);
    let is_left = |it: &&Subject| !planned.contains(&real_path(fs, it.path.as_ref()));
    let leaves = subjects.iter().filter(is_left).map(leaf);
    let graphs = std::mem::take(&mut all.plan);
    all.plan = Plan::gather([graphs].into_iter().chain(leaves));
    Ok(())
}
