//! What a plan would do to each program's start, nothing being written.

use crate::assume::Assumptions;
use crate::fix::judge::{self, Start};
use crate::fix::options::Options;
use crate::fix::plan::{PlanError, Planner};
use crate::fix::scope::Scope;
use crate::progress::Silent;
use crate::targets::{Problem, Target};

/// What a dry run on these files would find: the programs among them, before and after, and the
/// files that could not be looked at.
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
    let starts = judge::judge(&planner, &mut planned);
    Ok((starts, planned.problems))
}
