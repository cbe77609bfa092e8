//! The outcome of one column.

use crate::compare::apply::NotUndone;
use crate::compare::column::Column;
use crate::compare::error::CompareError;
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
    pub column: Result<Column, CompareError>,
    /// A traced start, or the reason why there is none.
    pub figures: Result<Figures, NoFigures>,
    /// The result of undo; `None` if it was not tested, `Some(None)` if all files were restored.
    pub undone: Option<Option<NotUndone>>,
}

/// The reason why a column has no traced start.
#[derive(Debug)]
pub(super) enum NoFigures {
    /// There is no column.
    NoColumn,
    /// No loader that reads the strategy was given.
    NoLoader,
    /// The program does not start, or cannot be traced.
    NotWatched(CompareError),
}

impl Outcome {
    /// Returns the reason why the strategy was not tested.
    #[must_use]
    pub(super) fn no_column(&self) -> Option<String> {
        self.column.as_ref().err().map(|error| words_of_chain(error))
    }

    /// Returns the reason why there is no traced start.
    #[must_use]
    pub(super) fn no_figures(&self) -> Option<String> {
        match self.figures.as_ref().err()? {
            NoFigures::NoColumn => self.no_column(),
            NoFigures::NoLoader => Some(NO_LOADER.to_owned()),
            NoFigures::NotWatched(error) => Some(words_of_chain(error)),
        }
    }
}
