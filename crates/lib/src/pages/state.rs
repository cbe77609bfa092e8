//! The folder of ready pages, for `becalm cache`.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use becalm_host::pages::PAGE;
use serde::Serialize;

use crate::index::file;
use crate::json::lossy_os;
use crate::pages::{FOLDER, name_of_index};
use crate::trees::folder;

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
/// [`clear`].
pub(crate) fn remove_of(index: &Path) {
    let Ok(Some(index)) = file::open_if_there(index) else { return };
    let Some(folder) = folder::existing_lasting().map(|it| it.join(FOLDER)) else { return };
    let Ok(beginning) = index.index.checksum().map(name_of_index) else { return };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries.filter(|it| it.file_name().as_bytes().starts_with(beginning.as_bytes())) {
        let _ = fs::remove_file(entry.path());
    }
}

/// Removes the files of a folder, and the folder. Programs that run keep their mappings.
///
/// # Errors
/// Returns an error if a file cannot be removed; the others are.
pub fn clear(folder: &Path) -> io::Result<()> {
    let entries = fs::read_dir(folder)?.flatten();
    let removed: Vec<_> = entries.map(|entry| fs::remove_file(entry.path())).collect();
    removed.into_iter().chain([fs::remove_dir(folder)]).collect()
}
