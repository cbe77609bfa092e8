//! The folder of records and copies, for `becalm doctor` and `becalm cache`.

use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::Serialize;

use crate::json::lossy_os;
use crate::records::Place;
use crate::trees::counts::{self, Counts};
use crate::trees::record::{ENDING, Record};
use crate::trees::{copies, folder, packed, times_count};

/// The folder of what starts look up on network file systems.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TreesState {
    /// The folder.
    #[serde(serialize_with = "lossy_os")]
    pub folder: PathBuf,
    /// The number of copies of files.
    pub copies: u64,
    /// The bytes of the copies.
    pub bytes: u64,
    /// The starts that were answered; all 0 for a pack.
    pub counts: Counts,
    /// The records, those that were learned last first.
    pub records: Vec<TreeRecordState>,
}

/// A record of the paths that starts of a command look up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TreeRecordState {
    /// The path of the command.
    pub command: String,
    /// The number of starts that were learned.
    pub starts: u32,
    /// The number of paths.
    pub paths: u32,
    /// The number of paths that have a copy.
    pub copies: u32,
    /// The time of the last start that was learned, in seconds since 1970.
    pub learned: u64,
    /// True if the times of files count in one of the trees. Otherwise nothing is copied.
    pub copied: bool,
}

impl TreeRecordState {
    pub(super) fn of(record: &Record) -> Self {
        let header = &record.header;
        let copies = record.paths.iter().filter(|path| path.copy.is_some()).count();
        Self {
            command: header.command.clone(),
            starts: header.starts,
            paths: header.paths,
            copies: copies as u32,
            learned: header.learned,
            copied: header.trees.iter().any(|tree| times_count(Path::new(tree))),
        }
    }
}

/// Removes the records and copies of a folder. Programs that run read the files themselves then.
///
/// # Errors
/// Returns the first error, when all others are removed.
pub fn clear(folder: &Path) -> io::Result<()> {
    // A record without copies does no harm.
    let records = Place::all(folder, ENDING).map(|place| {
        // A lock that nobody holds.
        drop(place.lock());
        place.0
    });
    let counts = Some(folder.join(counts::FILE)).filter(|path| path.exists());
    let removed: Vec<_> = records.chain(counts).map(fs::remove_file).collect();
    let folders = [folder::clear(&copies::path(folder, "")), packed::clear(folder)];
    removed.into_iter().chain(folders).collect()
}

/// Returns the state of this user's folder; `None` if there is none.
#[must_use]
pub fn state() -> Option<TreesState> {
    let folder = folder::existing()?;
    let records = Place::all(&folder, ENDING).filter_map(|place| Record::at(&place));
    let mut records: Vec<TreeRecordState> = records.map(|it| TreeRecordState::of(&it)).collect();
    records.sort_by(|a, b| (b.learned, &a.command).cmp(&(a.learned, &b.command)));
    let copies = fs::read_dir(copies::path(&folder, "")).into_iter().flatten().flatten();
    let lengths: Vec<u64> = copies.filter_map(|it| Some(it.metadata().ok()?.len())).collect();
    let (copies, bytes) = (lengths.len() as u64, lengths.iter().sum());
    let counts = Counts::read(&folder);
    Some(TreesState { folder, copies, bytes, counts, records })
}
