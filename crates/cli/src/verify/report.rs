//! What the command reports.

use becalm_core::strategy::verify::Checked;
use becalm_lib::targets::Problem;
use bstr::BString;

use crate::verify::load::Loads;

/// One object that has a strategy.
#[derive(Debug)]
pub(crate) struct Judged {
    /// The object, as told to the user.
    pub path: BString,
    /// Its answers.
    pub answers: Vec<Checked>,
}

/// All that is told of a run.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Objects that were looked at.
    pub looked_at: usize,
    /// Those with a strategy, in order of path.
    pub objects: Vec<Judged>,
    /// What the real loader did, with `--load`.
    pub loads: Vec<(BString, Loads)>,
    /// What could not be looked at.
    pub problems: Vec<Problem>,
}
