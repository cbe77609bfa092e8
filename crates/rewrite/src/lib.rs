//! becalm-rewrite: an ELF file and edits → the patch that makes them; and the patch that
//! takes them back.
//!
//! Pure, like the core: it reads through [`object::ReadRef`] and writes nothing.

#![forbid(unsafe_code)]

use becalm_core::edit::Edit;
use becalm_core::patch::Patch;
use object::ReadRef;

/// What an edit comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited {
    /// What to write; `None` where the file is already as asked.
    pub patch: Option<Patch>,
    /// What the user should know (the table had to move and `strip` would drop it, …).
    pub warnings: Vec<Warning>,
}

/// Something about a finished edit that the user should know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Warning {
    /// The program header table had to move to the end.
    #[error("the program header table had to move; strip will break the file")]
    TableMoved,
}

/// What becalm has done to a file so far, read from its trailer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// No trailer of ours.
    Untouched,
    /// Edited, and nothing else has changed it since: can be undone byte for byte.
    Edited {
        /// Length of the file before the first edit.
        original_length: u64,
    },
    /// An in-place edit was interrupted between trailer and ranges.
    Interrupted,
    /// Edited by us, and by something else since.
    ChangedSince,
}

/// Why a file cannot be edited or undone; the file is as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RewriteError {
    /// No ELF file, or a broken one.
    #[error("{0}")]
    Malformed(&'static str),
}

/// The patch that makes `edits`, in order, on the file `data`. An edited file is edited
/// anew: our segment is replaced, the trailer keeps the first original.
///
/// # Errors
/// Where the file cannot be edited without harm.
pub fn edit<'data, R: ReadRef<'data>>(_data: R, _edits: &[Edit]) -> Result<Edited, RewriteError> {
    unimplemented!()
}

/// What becalm has done to the file.
///
/// # Errors
/// Where it cannot be read.
pub fn state<'data, R: ReadRef<'data>>(_data: R) -> Result<State, RewriteError> {
    unimplemented!()
}

/// The patch that gives back the original bytes; also of an interrupted edit.
///
/// # Errors
/// Where there is nothing to undo, or something else has changed the file since.
pub fn undo<'data, R: ReadRef<'data>>(_data: R) -> Result<Patch, RewriteError> {
    unimplemented!()
}
