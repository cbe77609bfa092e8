//! The outcome of one column.

use crate::compare::apply::NotUndone;
use crate::compare::column::Column;
use crate::compare::error::CompareError;
use crate::compare::figures::Figures;
use crate::compare::kind::Kind;
use crate::words::words_of_chain;

/// Why a strategy was not tried that stock loaders do not read.
pub(super) const NO_LOADER: &str = "no loader that reads it was given (--loader)";

/// The outcome of one column.
#[derive(Debug)]
pub struct Outcome {
    /// The subject of the column.
    pub kind: Kind,
    /// The strategy on its copy, or why it was not tried.
    pub column: Result<Column, CompareError>,
    /// A watched start, or why there is none.
    pub figures: Result<Figures, NoFigures>,
    /// The file that undo left otherwise than it was; `None` if undo was not tried.
    pub undone: Option<Option<NotUndone>>,
}

/// Why a column has no watched start.
#[derive(Debug)]
pub enum NoFigures {
    /// There is no column.
    NoColumn,
    /// No loader that reads the strategy was given.
    NoLoader,
    /// The program does not start, or cannot be watched.
    NotWatched(CompareError),
}

impl Outcome {
    /// Why the strategy was not tried.
    #[must_use]
    pub fn no_column(&self) -> Option<String> {
        self.column.as_ref().err().map(|error| words_of_chain(error))
    }

    /// Why there is no watched start.
    #[must_use]
    pub fn no_figures(&self) -> Option<String> {
        match self.figures.as_ref().err()? {
            NoFigures::NoColumn => self.no_column(),
            NoFigures::NoLoader => Some(NO_LOADER.to_owned()),
            NoFigures::NotWatched(error) => Some(words_of_chain(error)),
        }
    }
}
