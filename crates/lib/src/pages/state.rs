//! The folder of ready pages, for `becalm cache`.

use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::Serialize;

use crate::json::lossy_os;
use crate::pages::FOLDER;
use crate::trees::folder;

/// The ready pages of programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PagesState {
    /// The folder.
    #[serde(serialize_with = "lossy_os")]
    pub folder: PathBuf,
    /// The number of files, one for each program and index.
    pub files: u64,
    /// The bytes of the files.
    pub bytes: u64,
}

/// Returns what is in the folder; `None` if there is none.
#[must_use]
pub fn state() -> Option<PagesState> {
    let folder = folder::existing_lasting()?.join(FOLDER);
    let entries = fs::read_dir(&folder).ok()?.flatten();
    let lengths: Vec<u64> = entries.filter_map(|it| Some(it.metadata().ok()?.len())).collect();
    Some(PagesState { folder, files: lengths.len() as u64, bytes: lengths.iter().sum() })
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
