//! The programs among the targets, as they start now.

use becalm_core::closure::Closure;
use becalm_core::cost::{SearchCost, misses_by_object};
use becalm_core::probe::ProbeLog;

use crate::fix::planner::Planner;
use crate::targets::Target;

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
            closure.load.probes = ProbeLog::default();
        }
        Self { target, closure, storm, misses }
    }
}
