//! The error of a table reader.

use thiserror::Error;

use super::layout;

/// The reason why bytes are not a valid table.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TableError {
    /// The bytes do not start like a table.
    #[error("not an index")]
    NotATable,
    /// The format version is another one.
    #[error("an index of format version {0}, not {v}; becalm index makes it again", v = layout::VERSION)]
    OtherVersion(u32),
    /// The table is shorter or longer than its header says.
    #[error("the index is cut short or has bytes too many")]
    WrongLength,
    /// A range of a file cannot be read.
    #[error("it cannot be read, or is shorter than it says")]
    Unreadable,
    /// A checksum does not match, or a place is outside the table.
    #[error("the index is damaged: {0}")]
    Damaged(&'static str),
}
