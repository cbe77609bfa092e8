//! The outcome of one column.

use anyhow::Result;

use crate::compare::apply::Kind;
use crate::compare::column::Column;
use crate::compare::figures::Figures;

/// Results of one column.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Subject of the column.
    pub kind: Kind,
    /// The strategy on its copy, or why it was not tried.
    pub column: Result<Column, String>,
    /// A watched start, or why there is none.
    pub figures: Result<Figures, String>,
    /// Whether undo gave the same bytes; `None` where that was not tried.
    pub undone: Option<Result<(), String>>,
}
