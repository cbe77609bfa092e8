//! Prediction of the effect of a plan on each program's start. Nothing is written.

use crate::assume::Assumptions;
use crate::fix::judge::{self, Start};
use crate::fix::options::Options;
use crate::fix::plan::{PlanError, Planner};
use crate::fix::refused::{self, Tried};
use crate::fix::scope::Scope;
use crate::progress::Silent;
use crate::targets::{Problem, Target};

/// Returns the findings of a dry run on these files: the programs among them, before and after, and
/// the files that could not be examined.
///
/// # Errors
/// Returns an error if nothing can be planned at all.
pub fn foresee(
    options: &Options,
    assumed: &Assumptions,
    files: &[Target],
) -> Result<(Vec<Start>, Vec<Problem>), PlanError> {
    let planner = Planner::new(options, assumed, &Silent);
    let mut planned = planner.plan(files)?;
    let paths: Vec<_> = files.iter().map(|file| file.host.clone()).collect();
    let scope = Scope::new(assumed, &paths);
    scope.limit(&mut planned.plan, options.closure, |path| planner.host_path(path));
    // A prediction is made for each program that `becalm check` checks. Trying a patch of every
    // library with every strategy would take half as long again.
    refused::withdraw(&planner, &mut planned, Tried::Programs);
    let starts = judge::judge(&planner, &mut planned);
    Ok((starts, planned.problems))
}
