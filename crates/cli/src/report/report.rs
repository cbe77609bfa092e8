//! Report of the command.

use crate::report::start::Snapshot;
use becalm_lib::compare::comparison::Comparison;

/// All that the page shows.
#[derive(Debug)]
pub(crate) struct Report {
    /// The program as it is.
    pub before: Snapshot,
    /// The calmed one.
    pub after: Option<Snapshot>,
    /// The strategies side by side.
    pub comparison: Option<Comparison>,
}
