//! What the command reports.

use becalm_core::strategy::Plan;
use becalm_lib::fix::judge::Start;
use becalm_lib::targets::Problem;
use bstr::BString;

use crate::writing::Done;

/// All that is told of a run.
#[derive(Debug)]
pub(crate) struct Report {
    /// Whether nothing was written because that was asked for.
    pub dry_run: bool,
    /// What was proposed, without what was refused.
    pub plan: Plan,
    /// Files of the plan that are outside the named paths (`--closure`).
    pub outside: Vec<BString>,
    /// What became of each file of the plan that has edits; empty for a dry run.
    pub done: Vec<(BString, Done)>,
    /// What became of each creation, likewise.
    pub made: Vec<(BString, Done)>,
    /// The programs among the targets.
    pub starts: Vec<Start>,
    /// Targets that could not be looked at.
    pub problems: Vec<Problem>,
    /// Whether a signal ended the work early.
    pub interrupted: bool,
}
