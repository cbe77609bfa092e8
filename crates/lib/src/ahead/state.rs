//! The records of a user, for `becalm doctor`.

use std::path::Path;

use becalm_host::pages::open;
use becalm_host::pages::resident::{self, Residency};
use serde::Serialize;

use crate::ahead::record::{Header, headers};

/// A record of starts, from which pages are read ahead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordState {
    /// The path of the command.
    pub command: String,
    /// The number of starts that were learned.
    pub starts: u32,
    /// True if no more starts have to be learned.
    pub complete: bool,
    /// True if the pages are those that the starts touched, without neighbours.
    pub exact: bool,
    /// The time of the last start that was learned, in seconds since 1970.
    pub learned: u64,
    /// The bytes that are read ahead of a cold start.
    pub bytes: u64,
    /// True if the file system of the largest files says which pages are in memory. Otherwise nothing
    /// is read ahead.
    pub usable: bool,
}

impl RecordState {
    fn of(header: Header) -> Self {
        let knows = |(path, page): &(String, u64)| {
            open(Path::new(path)).is_ok_and(|file| resident::of(&file, *page) != Residency::Unknown)
        };
        Self {
            usable: header.samples.iter().any(knows),
            complete: !header.is_wanting(),
            command: header.command,
            starts: header.starts,
            exact: header.exact,
            learned: header.learned,
            bytes: header.bytes,
        }
    }
}

/// Returns the records of this user, those that were learned last first.
#[must_use]
pub fn records() -> Vec<RecordState> {
    let mut states: Vec<RecordState> = headers().into_iter().map(RecordState::of).collect();
    states.sort_by(|a, b| (b.learned, &a.command).cmp(&(a.learned, &b.command)));
    states
}
