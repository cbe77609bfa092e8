//! becalm-rewrite: an ELF file and edits → the patch that makes them; and the patch that
//! takes them back.
//!
//! Pure, like the core: it reads through [`object::ReadRef`], only the ranges it needs,
//! and writes nothing.
//!
//! The main path: [`edit`] → `record` (what was done before, and so the original) →
//! `goal` (what the file is to say) → `assemble` (strings, `dynamic`, `versions`,
//! `layout`, `segment`, `sections`) → `invariants` (the finished image held against
//! rules) → `record` again, which adds what undoes it.
//!
//! # How an edited file is made
//!
//! New content is appended in one read-only segment. The program header table stays
//! where it is and grows over what follows it (`.interp`, notes, hash tables), which moves
//! into the new segment. The dynamic section is changed where it stands; only where it has
//! no spare `DT_NULL` does it move, into a writable segment. Overwritten bytes are kept in
//! a trailer at the end of the file, so that [`undo`] gives back the original exactly.
//!
//! # What is not done
//!
//! Nothing shrinks, code and data never move, and no relocation is touched. After `strip` or
//! another editor the trailer is gone, and with it the way back.

#![forbid(unsafe_code)]

mod assemble;
mod dynamic;
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
mod testing;
#[cfg(test)]
mod tests;
mod versions;

use becalm_core::edit::Edit;
use becalm_core::elf::{self, ObjectView};
use becalm_core::patch::Patch;
use bstr::BString;
use object::ReadRef;

use crate::goal::Goal;
use crate::image::Image;
use crate::overlay::Overlay;
use crate::record::{History, Status};

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
    /// An in-place edit was interrupted: either part of a record was appended, or the
    /// ranges were not all written. [`undo`] gives back the original.
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
    /// An object file or a core.
    #[error("neither a program nor a library")]
    NotLoadable,
    /// Debug information split off a program or library: nothing of it is ever loaded.
    #[error("debug information only")]
    DebugInformation,
    /// A structure lies behind the end of the file.
    #[error("the file is truncated")]
    Truncated,
    /// Segments overlap, or are not in the order of their addresses.
    #[error("its segments overlap or are out of order")]
    Overlapping,
    /// Bytes behind everything that the headers name: an AppImage, a PyInstaller program.
    /// Its reader looks for them from the end of the file.
    #[error("something is appended to the ELF file, from offset {offset} on")]
    Payload {
        /// Where it begins.
        offset: u64,
    },
    /// The new segment does not fit behind the others.
    #[error("no address is left for a further segment")]
    NoAddressSpace,
    /// More sections than `e_shnum` can say.
    #[error("it has too many sections")]
    TooManySections,
    /// No `PT_DYNAMIC`: a static program.
    #[error("a static program: it has no dynamic section")]
    NotDynamic,
    /// A static program that relocates itself by its dynamic section.
    #[error("a static position-independent program: it relocates itself")]
    StaticPie,
    /// The dynamic loader itself.
    #[error("it is the dynamic loader itself")]
    Loader,
    /// No `PT_INTERP` to be changed.
    #[error("it names no interpreter")]
    NoInterpreter,
    /// Neither the table of program headers nor a copy of it has room.
    #[error("no room for a further program header")]
    NoRoom,
    /// A string that no file can hold.
    #[error("not a string for an ELF file: {0}")]
    BadString(&'static str),
    /// A needed string cannot go: versions are needed from it alone.
    #[error("versions of symbols are needed from {0}")]
    VersionsNeeded(BString),
    /// There is no trailer of ours.
    #[error("nothing to undo")]
    NothingToUndo,
    /// Something else has changed the file since we did.
    #[error("something else has changed the file since becalm did")]
    ChangedSince,
    /// An edit in place was interrupted; it must be undone before the next one in place.
    #[error("an edit in place was interrupted; undo it first")]
    Interrupted,
    /// The finished image breaks a rule; it was not written.
    #[error("the finished file would break a rule: {0}")]
    Invariant(&'static str),
}

/// The patch that makes `edits`, in order, on the file `data`. An edited file is edited
/// anew: our segment is replaced, the trailer keeps the first original.
///
/// On an edited file the patch overwrites the old record: it is for a writer that
/// replaces the file as a whole. [`edit_in_place`] is for one that keeps the inode.
///
/// # Errors
/// Where the file cannot be edited without harm.
pub fn edit<'data, R: ReadRef<'data>>(data: R, edits: &[Edit]) -> Result<Edited, RewriteError> {
    edit_at(data, edits, Place::Replacing)
}

/// Like [`edit`], for a writer that keeps the inode: on an edited file the new record
/// follows the old one, so that at every instant one of them is complete. The file grows
/// with each further edit; [`edit`] and [`undo`] shed what was gathered.
///
/// A crash can be taken back at any point if the patch is written in this order:
///
/// 1. its first write at or behind the end of the file (the leader), synced;
/// 2. its other writes there, synced;
/// 3. its writes inside the file, synced.
///
/// # Errors
/// Where the file cannot be edited without harm; [`RewriteError::Interrupted`] where an
/// earlier one was interrupted, which [`undo`] takes back.
pub fn edit_in_place<'data, R: ReadRef<'data>>(
    data: R,
    edits: &[Edit],
) -> Result<Edited, RewriteError> {
    edit_at(data, edits, Place::Behind)
}

/// Where a further record goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Over the one there is.
    Replacing,
    /// Behind it.
    Behind,
}

fn edit_at<'data, R: ReadRef<'data>>(
    data: R,
    edits: &[Edit],
    place: Place,
) -> Result<Edited, RewriteError> {
    let Some(history) = record::find(data) else {
        return edit_original(data, data, edits, None, place);
    };
    if history.status == Status::Changed {
        return Err(RewriteError::ChangedSince);
    }
    if place == Place::Behind && history.status == Status::Torn {
        return Err(RewriteError::Interrupted);
    }
    let original = Overlay::new(data, &history.old, history.original_length);
    edit_original(&original, data, edits, Some(&history), place)
}

/// `original` is the file as it was before any edit, `data` as it is.
fn edit_original<'o, 'data, O: ReadRef<'o>, R: ReadRef<'data>>(
    original: O,
    data: R,
    edits: &[Edit],
    history: Option<&History>,
    place: Place,
) -> Result<Edited, RewriteError> {
    let image = Image::read(original)?;
    image.check(original)?;
    if goal::is_loader(&image, original) {
        return Err(RewriteError::Loader);
    }
    let before = match history {
        None => Goal::default(),
        Some(history) => history.goal(data).ok_or(RewriteError::ChangedSince)?,
    };
    let mut wanted = before.clone();
    for edit in edits {
        wanted.apply(edit, &image, original)?;
    }
    wanted.settle(&image, original)?;
    let complete = history.is_none_or(|history| history.status == Status::Complete);
    if wanted == before && complete {
        return Ok(Edited { patch: None, warnings: Vec::new() });
    }
    if let (true, Some(history)) = (wanted.is_original(), history) {
        return Ok(Edited { patch: Some(history.undo()), warnings: Vec::new() });
    }
    let append_at = match history {
        Some(history) if place == Place::Behind => history.end,
        _ => image.length,
    };
    let draft = assemble::assemble(&image, original, &wanted, append_at)?;
    invariants::check(&image, original, &draft.content, &wanted)?;
    let length = data.len().map_err(|()| RewriteError::Malformed("its length is unknown"))?;
    let patch = record::finish(draft.content, &wanted, (&image, original), history, length)?;
    Ok(Edited { patch: Some(patch), warnings: draft.warnings })
}

/// What becalm has done to the file.
///
/// # Errors
/// Where it cannot be read.
pub fn state<'data, R: ReadRef<'data>>(data: R) -> Result<State, RewriteError> {
    data.len().map_err(|()| RewriteError::Malformed("its length is unknown"))?;
    let Some(history) = record::find(data) else { return Ok(State::Untouched) };
    Ok(match history.status {
        Status::Complete => State::Edited { original_length: history.original_length },
        Status::Appending | Status::Torn => State::Interrupted,
        Status::Changed => State::ChangedSince,
    })
}

/// The patch that gives back the original bytes; also of an interrupted edit. In place,
/// the ranges are to be written and synced before the file is shortened.
///
/// # Errors
/// Where there is nothing to undo, or something else has changed the file since.
pub fn undo<'data, R: ReadRef<'data>>(data: R) -> Result<Patch, RewriteError> {
    let history = record::find(data).ok_or(RewriteError::NothingToUndo)?;
    if history.status == Status::Changed {
        return Err(RewriteError::ChangedSince);
    }
    Ok(history.undo())
}

/// The object that a file was before its edits; `None` if becalm has not edited it. The file is read
/// in ranges, however long it is.
///
/// # Errors
/// If something else has changed the file since, or the original is no ELF file.
pub fn original<'data, R: ReadRef<'data>>(data: R) -> Result<Option<ObjectView>, RewriteError> {
    if state(data)? == State::Untouched {
        return Ok(None);
    }
    let Patch { writes, length } = undo(data)?;
    let original = Overlay::new(data, &writes, length);
    let view = elf::parse(&original);
    view.map(Some).map_err(|_| RewriteError::Malformed("what its record gives is no ELF file"))
}

impl History {
    fn undo(&self) -> Patch {
        Patch { writes: self.old.clone(), length: self.original_length }
    }
}
