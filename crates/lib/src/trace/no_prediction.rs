//! Why the model says nothing of an image.

use thiserror::Error;

/// Why the model says nothing of an image.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NoPrediction {
    /// The program cannot be checked.
    #[error("{0}")]
    NotChecked(String),
    /// No loader starts the file.
    #[error("nothing that a loader starts")]
    NotStarted,
    /// The image is a fork.
    #[error("a fork: no loader was at work")]
    Fork,
}
