//! Prediction of the effect of a plan on each program's start. Nothing is written.

use becalm_core::cost::SearchCost;
use becalm_core::facts::Environment;
use becalm_core::strategy::planned::{Outlook, planned};

use crate::assume::Assumptions;
use crate::fix::judge::{self, Start};
use crate::fix::loader::loader;
use crate::fix::options::Options;
use crate::fix::plan::{self, Planned};
use crate::fix::planner::Planner;
use crate::fix::{refused, scope};
use crate::progress::Silent;
use crate::targets::Target;

/// Returns the programs among these files, before and after a dry run on them, and its plan. The plan is for an
/// empty environment; the search cost after it is that in `here`.
///
/// # Errors
/// Returns an error if nothing can be planned at all.
pub fn foresee(
    options: &Options,
    assumed: &Assumptions,
    files: &[Target],
    here: &Environment,
) -> anyhow::Result<(Vec<Start>, Planned)> {
    let mut planner = Planner::new(options, assumed, &Silent);
    planner.is_forecast = true;
    let mut planned = plan::plan(&planner, files)?;
    let paths: Vec<_> = files.iter().map(|file| file.host.clone()).collect();
    scope::limit(&planner, &paths, &mut planned.plan);
    refused::withdraw(&planner, &mut planned);
    let mut starts = judge::judge(&planner, &mut planned);
    if here.library_path.is_some() || here.preload.is_some() {
        in_environment(&planner, &planned, here, &mut starts);
    }
    Ok((starts, planned))
}

/// Predicts the starts that a plan changes in an environment.
fn in_environment(planner: &Planner<'_>, all: &Planned, here: &Environment, starts: &mut [Start]) {
    let session = planner.assumed.fs.session();
    let fs = planner.mapped(&session);
    let outlook = Outlook::of(&fs, &all.plan);
    let over = outlook.over(&fs);
    let environment = Environment { reads: planner.environment(true).reads, ..here.clone() };
    for (start, program) in starts.iter_mut().zip(&all.programs) {
        start.after = start.after.and_then(|_| {
            let interpreter = loader(&program.closure)?;
            let foreseen = planned(&fs, &over, &program.closure, interpreter, &environment).ok()?;
            Some(SearchCost::of(&foreseen.after.load))
        });
    }
}
