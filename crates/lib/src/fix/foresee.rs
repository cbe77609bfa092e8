//! Prediction of the effect of a plan on each program's start. Nothing is written.

use becalm_core::cost::SearchCost;
use becalm_core::facts::Environment;
use becalm_core::strategy::Finding;
use becalm_core::strategy::planned::{Outlook, planned};

use crate::assume::Assumptions;
use crate::fix::judge::{self, Start};
use crate::fix::loader::loader;
use crate::fix::options::Options;
use crate::fix::plan::{Planned, Planner};
use crate::fix::refused::{self, Tried};
use crate::fix::scope::Scope;
use crate::progress::Silent;
use crate::targets::{Problem, Target};

/// The findings of a dry run.
#[derive(Debug, Default)]
pub struct Foreseen {
    /// The programs among the files, before and after.
    pub starts: Vec<Start>,
    /// The files that could not be examined.
    pub problems: Vec<Problem>,
    /// The parts that the plan leaves out.
    pub findings: Vec<Finding>,
}

/// Returns the findings of a dry run on these files. The plan is for an empty environment; the search cost after
/// it is that in `here`.
///
/// # Errors
/// Returns an error if nothing can be planned at all.
pub fn foresee(
    options: &Options,
    assumed: &Assumptions,
    files: &[Target],
    here: &Environment,
) -> anyhow::Result<Foreseen> {
    let mut planner = Planner::new(options, assumed, &Silent);
    planner.walks_packages = false;
    let mut planned = planner.plan(files)?;
    let paths: Vec<_> = files.iter().map(|file| file.host.clone()).collect();
    let scope = Scope::new(assumed, &paths);
    scope.limit(&mut planned.plan, options.closure, |path| planner.host_path(path));
    // A prediction is made for each program that `becalm check` checks. Trying a patch of every
    // library with every strategy would take half as long again.
    refused::withdraw(&planner, &mut planned, Tried::Programs);
    let mut starts = judge::judge(&planner, &mut planned);
    if here.library_path.is_some() || here.preload.is_some() {
        in_environment(&planner, &planned, here, &mut starts);
    }
    Ok(Foreseen { starts, problems: planned.problems, findings: planned.plan.findings })
}

/// Predicts the starts that a plan changes in an environment.
fn in_environment(planner: &Planner<'_>, all: &Planned, here: &Environment, starts: &mut [Start]) {
    let session = planner.assumed.fs.session();
    let fs = planner.mapped(&session);
    let outlook = Outlook::of(&fs, &all.plan);
    let over = outlook.over(&fs);
    let environment = Environment { reads: planner.environment(true).reads, ..here.clone() };
    for (start, program) in starts.iter_mut().zip(&all.programs) {
        let after = || {
            let interpreter = loader(&program.closure)?;
            planned(&fs, &over, &program.closure, interpreter, &environment).ok()
        };
        let after = start.after.and_then(|_| after());
        start.after = after.map(|foreseen| SearchCost::of(&foreseen.after.load));
    }
}
