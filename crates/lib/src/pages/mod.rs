//! Ready pages (`run --share-pages`): what relocation writes into the libraries of a start, in a file from
//! which all starts of the program map it.
//!
//! The libraries lie at addresses that are drawn for each program, user and boot ([`make`]). [`choose`]
//! finds the pages that are the same in two starts, [`file`](self::file) has their format. The audit module
//! uses them (`crates/audit/module/pages.c`).

mod choose;
mod file;
pub mod make;
#[cfg(test)]
mod tests;

use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{env, fs};

use becalm_core::index::hash;
use becalm_host::detached::{detached, lower_priority};
use becalm_host::pages::PAGE;
use serde::Serialize;

use crate::index::file::{Opened, open_if_there};
use crate::index::places::cache_writer;
use crate::index::variables::{NO_BIND, OFF, SWITCHES, has_switch, text_of_switch};
use crate::json::lossy_os;
use crate::pages::file::is_usable;
use crate::path::path_bytes;
use crate::run::Indexed;
use crate::trees::folder;

/// The switch with the folder of ready pages.
pub const PAGES: &str = "pages:";
/// The switch with which no ready pages are used.
pub const NO_PAGES: &str = "nopages";
/// The folder in that of records and copies.
const FOLDER: &str = "pages";
/// Names or paths of programs, a line each, that never get ready pages.
pub const LIST: &str = "/etc/becalm/no-share-pages";

/// Returns the folder of ready pages, which is made if it is missing; `None` without a place for it.
pub(crate) fn folder() -> Option<PathBuf> {
    folder::lasting(FOLDER).filter(|folder| text_of_switch(folder).is_some())
}

/// Returns the file of ready pages of a program in a folder. Its name is that of `name_file`
/// (`audit/pages.c`).
fn path(folder: &Path, index: &Opened, real: &Path) -> Option<PathBuf> {
    let of_program = hash::bytes(0, &path_bytes(real)) as u32;
    let of_index = name_of_index(index.index.checksum().ok()?);
    Some(folder.join(format!("{of_index}{of_program:08x}")))
}

/// Returns the beginning of the names of the pages of an index's programs.
fn name_of_index(checksum: u64) -> String {
    format!("{checksum:016x}")
}

/// Returns the switch with which a start uses ready pages. If there are none yet, another process makes
/// them for the next start. `None` if this start has none.
///
/// Nothing is an error: the program is started all the same. Call this while the process has one thread.
#[must_use]
pub fn begin(indexed: &Indexed) -> Option<String> {
    let switches = env::var_os(SWITCHES);
    if [NO_PAGES, NO_BIND, OFF].iter().any(|it| has_switch(switches.as_deref(), it)) {
        return None;
    }
    let folder = folder()?;
    let path = path(&folder, &indexed.index, &indexed.real)?;
    if is_usable(&path, false) {
        return Some(format!("{PAGES}{}", text_of_switch(&folder)?));
    }
    // The next start tries again.
    let _ = detached([&lock(&path, indexed)?], |[lock]| {
        lower_priority();
        make::locked(&path, indexed, lock);
    });
    None
}

/// Makes the ready pages of a program that is started by this index in a folder, unless another process
/// does.
fn ensure(folder: &Path, indexed: &Indexed) -> Option<()> {
    let path = path(&folder::own(folder)?, &indexed.index, &indexed.real)?;
    make::locked(&path, indexed, lock(&path, indexed)?);
    Some(())
}

/// Takes the lock of making a file; `None` if another process has it, or the administrator's list has the program,
/// which never gets ready pages.
fn lock(path: &Path, indexed: &Indexed) -> Option<OwnedFd> {
    let list = becalm_host::read_regular(Path::new(LIST)).unwrap_or_default();
    (!names(&list, &indexed.real)).then_some(())?;
    cache_writer().lock(&path.with_extension("lock")).ok()?
}

/// True if a list of names and paths, a line each, has the program.
fn names(list: &[u8], real: &Path) -> bool {
    let name = real.file_name().unwrap_or_default().as_encoded_bytes();
    let whole = path_bytes(real);
    list.split(|byte| *byte == b'\n')
        .map(<[u8]>::trim_ascii)
        .any(|line| line == &whole[..] || line == name)
}

/// The ready pages of programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PagesState {
    /// The folder.
    #[serde(serialize_with = "lossy_os")]
    pub folder: PathBuf,
    /// The number of files with pages, one for each program and index.
    pub files: u64,
    /// The bytes of the files.
    pub bytes: u64,
}

/// Returns the number and the bytes of the files; `None` if there is no folder.
#[must_use]
pub fn state() -> Option<PagesState> {
    let folder = folder::existing_lasting()?.join(FOLDER);
    let entries = fs::read_dir(&folder).ok()?.flatten();
    let lengths: Vec<u64> = entries.filter_map(|it| Some(it.metadata().ok()?.len())).collect();
    // One page says that a program has too few.
    let files = lengths.iter().filter(|length| **length != PAGE).count() as u64;
    Some(PagesState { folder, files, bytes: lengths.iter().sum() })
}

/// Removes this user's pages of the programs of an index. A file that cannot be removed is left for
/// [`folder::clear`].
pub(crate) fn remove_of(index: &Path) {
    let Ok(Some(index)) = open_if_there(index) else { return };
    let Some(folder) = folder::existing_lasting().map(|it| it.join(FOLDER)) else { return };
    let Ok(beginning) = index.index.checksum().map(name_of_index) else { return };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries.filter(|it| it.file_name().as_bytes().starts_with(beginning.as_bytes())) {
        let _ = fs::remove_file(entry.path());
    }
}
