//! The differences between a view and its source.

use std::time::Duration;

use super::REMEMBERED;
use super::faults::Faults;

/// Called before each step.
pub(super) type Wait = Box<dyn Fn(Step) + Send + Sync>;

/// Called before each read.
pub(super) type ReadWait = Box<dyn Fn() + Send + Sync>;

/// A request that can be slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    LookUp,
    Open,
    Attributes,
}

/// The differences between a view and its source.
pub(super) struct Options {
    pub(super) wait: Wait,
    /// Makes each read slow; the kernel caches none then.
    pub(super) read_wait: Option<ReadWait>,
    /// Time for which the kernel may cache existing names.
    pub(super) names_kept: Duration,
    /// Time for which the kernel may cache attributes.
    pub(super) attributes_kept: Duration,
    /// The times of directories never change.
    pub(super) has_still_times: bool,
    /// The source can be changed through the view, and the kernel caches no content.
    pub(super) is_writable: bool,
    pub(super) faults: Option<Faults>,
}

impl Default for Options {
    /// Returns the options of a view in which nothing is slow.
    fn default() -> Self {
        Self {
            wait: Box::new(|_| {}),
            read_wait: None,
            names_kept: REMEMBERED,
            attributes_kept: REMEMBERED,
            has_still_times: false,
            is_writable: false,
            faults: None,
        }
    }
}
