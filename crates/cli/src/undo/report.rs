//! What the command reports.

use becalm_lib::targets::Problem;
use bstr::BString;

use crate::writing::Done;

/// All that is told of a run.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Whether nothing was written because that was asked for.
    pub dry_run: bool,
    /// What became of each file; of those below a folder, the edited ones alone.
    pub files: Vec<(BString, Done)>,
    /// What became of each directory of links and loader cache.
    pub removed: Vec<(BString, Done)>,
    /// Loader caches that stay, because they answer for other objects of their package than those
    /// named, with the number of these.
    pub kept: Vec<(BString, usize)>,
    /// What could not be looked at.
    pub problems: Vec<Problem>,
    /// Whether a signal ended the work early.
    pub interrupted: bool,
}
