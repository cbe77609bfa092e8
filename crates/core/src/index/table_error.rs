//! Why bytes are not a table.

use thiserror::Error;

use super::layout;

/// Why bytes are no table.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TableError {
    /// They do not start as a table does.
    #[error("not an index")]
    NotATable,
    /// Of a format version that is not known here.
    #[error("an index of format version {0}; known are 1 and {v}", v = layout::VERSION)]
    OtherVersion(u32),
    /// Shorter or longer than the header says.
    #[error("the index is cut short or has bytes too many")]
    WrongLength,
    /// A checksum does not fit, or a place leaves the table.
    #[error("the index is damaged: {0}")]
    Damaged(&'static str),
}
