//! The reasons why the model has no prediction for an image.

use thiserror::Error;

/// The reason why the model has no prediction for an image.
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
