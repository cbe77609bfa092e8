//! becalm-rewrite computes the patch that makes edits in an ELF file, and the patch that reverts them.
//!
//! The crate is pure, like the core. It reads ranges through [`object::ReadRef`] and writes nothing.
//!
//! The main path is [`edit`] → `record` (finds earlier edits and the original) → `goal` (the wanted
//! strings and note) → `assemble` (with `strings`, `dynamic`, `versions`, `layout`, `segment`,
//! `sections`) → `invariants` (checks the finished image) → `record` again (adds the data for an undo).
//!
//! # Example
//!
//! Write a note and take it back:
//!
//! ```
//! use becalm_core::edit::Edit;
//!
//! let original = std::fs::read(std::env::current_exe()?)?;
//! let note = Edit::ResolutionNote(Some(b"libc.so.6\0=/lib/libc.so.6\0".to_vec()));
//! let edited = becalm_rewrite::edit(&original[..], &[note])?;
//! let with_note = edited.patch.expect("it had no note").applied_to(&original);
//! let restored = becalm_rewrite::undo(&with_note[..])?.applied_to(&with_note);
//! assert!(with_note != original && restored == original);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How an edited file is made
//!
//! New content is appended in one read-only segment. The program header table stays at its offset and
//! grows over the bytes after it (`.interp`, notes, hash tables), which move into the new segment. The
//! dynamic section is changed in place. If it has no spare `DT_NULL`, it moves into a writable
//! segment. The overwritten bytes are kept in a trailer at the end of the file, so that [`undo`]
//! restores the original exactly.
//!
//! # What is not done
//!
//! The file never shrinks, code and data never move, and no relocation is changed. `strip` and other
//! editors remove the trailer. An undo is then impossible.

#![forbid(unsafe_code)]

mod assemble;
mod dynamic;
mod fields;
mod format;
mod goal;
mod image;
mod invariants;
mod layout;
mod notes;
mod overlay;
mod record;
mod sections;
mod segment;
mod strings;
mod symbols;
#[cfg(test)]
mod tests;
mod versions;

use becalm_core::edit::Edit;
use becalm_core::elf::{self, ObjectView};
use becalm_core::patch::Patch;
use bstr::BString;
use object::ReadRef;

use crate::goal::Goal;
use crate::image::{File, Image, Source};

pub use crate::notes::note;
pub use crate::segment::page_size;

/// The result of a part of an edit.
pub(crate) type Result<T, E = RewriteError> = std::result::Result<T, E>;

/// The result of an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited {
    /// The patch to write. `None` if the file needs no change.
    pub patch: Option<Patch>,
    /// A warning for the user.
    pub warning: Option<&'static str>,
}

/// The warning that the program header table had to move to the end.
const TABLE_MOVED: &str = "the program header table had to move; strip will break the file";

/// The state of a file, from its trailer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// becalm has not edited the file.
    Untouched,
    /// becalm has edited the file, and nothing else has changed it since. [`undo`] restores it byte
    /// for byte.
    Edited {
        /// The length of the file before the first edit.
        original_length: u64,
    },
    /// An edit in place was interrupted: only a part of a record was appended. [`undo`] restores the
    /// original.
    Appending,
    /// An edit in place was interrupted: its record is complete, but not all ranges were written.
    /// [`undo`] restores the original.
    Torn,
    /// becalm has edited the file, and something else has changed it since.
    ChangedSince,
}

/// Returned if a file cannot be edited or undone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RewriteError {
    /// The file is not a valid ELF file.
    #[error("{0}")]
    Malformed(&'static str),
    /// The file is an object file or a core dump.
    #[error("neither a program nor a library")]
    NotLoadable,
    /// The file has separate debug information, which is never loaded.
    #[error("debug information only")]
    DebugInformation,
    /// A structure is after the end of the file.
    #[error("the file is truncated")]
    Truncated,
    /// Segments overlap, or are not in the order of their addresses.
    #[error("its segments overlap or are out of order")]
    Overlapping,
    /// Bytes follow the structures that the headers name, as in an AppImage or a self-extracting archive.
    /// The program finds them from the end of the file or from the section headers, and an edit would
    /// move both.
    #[error(
        "something is appended to the ELF file, from offset {offset} on: its program may search it from \
         the end of the file or from the section headers, which an edit moves"
    )]
    Payload {
        /// The start of the bytes.
        offset: u64,
    },
    /// Bytes follow the segments of a file without section headers.
    #[error(
        "bytes that no header names follow the segments, from offset {offset} on: a payload, or what \
         is left of removed section headers"
    )]
    Unnamed {
        /// The start of the bytes.
        offset: u64,
    },
    /// The addresses after the other segments are too few for the new segment.
    #[error("no address is left for a further segment")]
    NoAddressSpace,
    /// The number of sections exceeds `e_shnum`.
    #[error("it has too many sections")]
    TooManySections,
    /// The file has no `PT_DYNAMIC`: it is a static program.
    #[error("a static program: it has no dynamic section")]
    NotDynamic,
    /// The file is a static program that relocates itself with its dynamic section.
    #[error("a static position-independent program: it relocates itself")]
    StaticPie,
    /// The file is the dynamic loader itself.
    #[error("it is the dynamic loader itself")]
    Loader,
    /// The file has no `PT_INTERP` to change.
    #[error("it names no interpreter")]
    NoInterpreter,
    /// The file has a section of resolution notes without a note that a loader finds.
    #[error("a section .note.nixos.ldcache is already present, without a note that a loader reads")]
    UnreadableNote,
    /// The file has no `PT_GNU_STACK`, so its machine decides about the stack.
    #[error("it has no header for the stack (PT_GNU_STACK)")]
    NoStackHeader,
    /// Neither the program header table nor a copy of it has room for a further header.
    #[error("no room for a further program header")]
    NoRoom,
    /// An ELF file cannot contain the string.
    #[error("not a string for an ELF file: {0}")]
    BadString(&'static str),
    /// The needed string cannot be removed, because it is the only file that versions are needed
    /// from.
    #[error("versions of symbols are needed from {0}")]
    VersionsNeeded(BString),
    /// becalm has not edited the file.
    #[error("nothing to undo")]
    NothingToUndo,
    /// Something else has changed the file since becalm edited it.
    #[error("something else has changed the file since becalm did")]
    ChangedSince,
    /// An edit in place was interrupted. It must be undone before the next one in place.
    #[error("an edit in place was interrupted; undo it first")]
    Interrupted,
    /// The finished image breaks a rule. It was not written.
    #[error("the finished file would break a rule: {0}")]
    Invariant(&'static str),
}

/// Returns true if a program or library requests an executable stack. `None` if it has no
/// `PT_GNU_STACK`.
///
/// # Errors
/// Returns [`RewriteError`] if the file is neither, or if its structures are invalid.
pub fn executable_stack<'data, R: ReadRef<'data>>(data: R) -> Result<Option<bool>, RewriteError> {
    Ok(fields::stack(&Image::read(&File::new(data))?))
}

/// Computes the patch that makes `edits`, in order, in the file `data`. A further edit of an edited
/// file replaces the appended segment, and the trailer keeps the first original.
///
/// In an edited file the patch overwrites the old record. The writer must replace the file as a whole.
/// [`edit_in_place`] is for a writer that keeps the inode.
///
/// # Errors
/// Returns [`RewriteError`] if the file cannot be edited without harm.
pub fn edit<'data, R: ReadRef<'data>>(data: R, edits: &[Edit]) -> Result<Edited, RewriteError> {
    edit_at(&File::new(data), edits, false)
}

/// Computes a patch like [`edit`], for a writer that keeps the inode. In an edited file the new record
/// follows the old one, so that one of them is complete at any time. The file grows with each further
/// edit; [`edit`] and [`undo`] drop the old records.
///
/// A crash at any point can be undone if the patch is written in this order:
///
/// 1. the first write at or after the end of the file (the leader), synced;
/// 2. the other writes after the end, synced;
/// 3. the writes inside the file, synced.
///
/// # Errors
/// Returns [`RewriteError`] if the file cannot be edited without harm. Returns
/// [`RewriteError::Interrupted`] if an earlier edit was interrupted; [`undo`] reverts it.
pub fn edit_in_place<'data, R: ReadRef<'data>>(
    data: R,
    edits: &[Edit],
) -> Result<Edited, RewriteError> {
    edit_at(&File::new(data), edits, true)
}

/// Edits the file. A further record follows the old one if `behind` is true, and replaces it otherwise.
fn edit_at(data: &dyn Source, edits: &[Edit], behind: bool) -> Result<Edited, RewriteError> {
    let history = record::find(data)?;
    match history.state {
        State::ChangedSince => return Err(RewriteError::ChangedSince),
        // A further record would follow ranges that are only partly written.
        State::Torn if behind => return Err(RewriteError::Interrupted),
        _ => {}
    }
    // Every edit starts from the original, so that edits do not accumulate.
    let undo = history.trailer.undo();
    let original = overlay::new(data, &undo.writes, undo.length);
    let original = File::new(&original);
    // The ranges of an untouched file are not copied.
    let original = if history.state == State::Untouched { data } else { &original };
    let image = Image::read(original)?;
    image.check()?;
    if goal::is_loader(&image) {
        return Err(RewriteError::Loader);
    }
    let before = history.goal(data).ok_or(RewriteError::ChangedSince)?;
    let mut wanted = before.clone();
    for edit in edits {
        wanted.apply(edit, &image)?;
    }
    wanted.settle(&image)?;
    // An interrupted edit is written again even if its goal is the wanted one.
    let is_whole = matches!(history.state, State::Untouched | State::Edited { .. });
    if wanted == before && is_whole {
        return Ok(Edited { patch: None, warning: None });
    }
    // The edits lead back to the original: the undo also removes the record.
    if wanted == Goal::default() {
        return Ok(Edited { patch: Some(history.trailer.undo()), warning: None });
    }
    // The old record stays until the new one is complete.
    let append_at = if behind { history.end } else { image.length };
    let content = assemble::assemble(&image, &wanted, append_at)?;
    invariants::check(&image, &content, &wanted)?;
    let warning = content.table_moves.then_some(TABLE_MOVED);
    let patch = record::finish(content, &wanted, &image, &history, data.length()?)?;
    Ok(Edited { patch: Some(patch), warning })
}

/// Reads the state of a file.
///
/// # Errors
/// Returns [`RewriteError::Malformed`] if the file cannot be read.
pub fn state<'data, R: ReadRef<'data>>(data: R) -> Result<State, RewriteError> {
    Ok(record::find(&File::new(data))?.state)
}

/// Computes the patch that restores the original bytes, also after an interrupted edit. A writer in
/// place must write and sync the ranges before it shortens the file.
///
/// # Errors
/// Returns [`RewriteError::NothingToUndo`] if becalm has not edited the file, and
/// [`RewriteError::ChangedSince`] if something else has changed it since, or has removed the record.
pub fn undo<'data, R: ReadRef<'data>>(data: R) -> Result<Patch, RewriteError> {
    let data = File::new(data);
    let history = record::find(&data)?;
    match history.state {
        State::Untouched if !record::is_removed(&data) => Err(RewriteError::NothingToUndo),
        State::Untouched | State::ChangedSince => Err(RewriteError::ChangedSince),
        _ => Ok(history.trailer.undo()),
    }
}

/// Parses the original of an edited file. Returns `None` if becalm has not edited the file. Only
/// ranges of the file are read.
///
/// # Errors
/// Returns [`RewriteError`] if something else has changed the file since, or if the original is not a
/// valid ELF file.
pub fn original<'data, R: ReadRef<'data>>(data: R) -> Result<Option<ObjectView>, RewriteError> {
    if state(data)? == State::Untouched {
        return Ok(None);
    }
    let Patch { writes, length } = undo(data)?;
    let original = File::new(data);
    let original = overlay::new(&original, &writes, length);
    let view = elf::parse(&original);
    view.map(Some)
        .map_err(|_| RewriteError::Malformed("the original in its record is not an ELF file"))
}
