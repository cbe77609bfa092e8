//! The outcome of one column.

use crate::compare::column::Column;
use crate::compare::figures::Figures;
use crate::compare::kind::Kind;
use becalm_lib::words::words_of_chain;

/// The reason why a strategy that unpatched loaders do not read was not tested.
pub(super) const NO_LOADER: &str = "no loader that reads it was given (--loader)";

/// The outcome of one column.
#[derive(Debug)]
pub(super) struct Outcome {
    /// The subject of the column.
    pub kind: Kind,
    /// The strategy on its copy, or the reason why it was not tested.
    pub column: Result<Column, String>,
    /// A traced start, or the reason why there is none.
    pub figures: Result<Figures, String>,
    /// The result of undo: the first file that differs from its state before the strategy, if there is
    /// one. `None` if it was not tested.
    pub undone: Option<Option<String>>,
}

/// Describes an error and its causes.
pub(super) fn words(error: anyhow::Error) -> String {
    words_of_chain(error.as_ref())
}
