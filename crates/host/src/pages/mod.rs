//! Pages of the files of a start: which a process has touched, whether they are in memory, and
//! requests to read them; and files that are opened meanwhile ([`opens`]).
//!
//! [`Touched`] reads `/proc/PID/pagemap`. The kernel enters up to 16 neighbours of a touched page as
//! well if they are in memory (`do_fault_around` of Linux mm/memory.c), so [`fault_around`] turns
//! that off for the files of a process. Neither needs privileges, and a warm start tells as much
//! as a cold one.

pub mod ahead;
pub mod fault_around;
pub(crate) mod maps;
mod open;
pub mod opens;
pub mod resident;
pub mod steered;
mod touched;

use std::os::unix::fs::MetadataExt;

use serde::{Deserialize, Serialize};

pub use open::{open, open_directory};
pub use touched::{MOST_TOUCHED, Touched};

/// The unit of page numbers in bytes, whatever the page size of the machine.
pub const PAGE: u64 = 4096;
/// Pages of one file beyond this number are not recorded: 4 GiB.
pub const MOST_PAGES: u64 = 1 << 20;

/// The state of a file: if it differs, page numbers of the file mean something else. The device is
/// left out, because it may have another number after a reboot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileState {
    /// The inode.
    pub inode: u64,
    /// The length in bytes.
    pub size: u64,
    /// The time of the last change of the content, in seconds and nanoseconds since 1970.
    pub changed: (i64, i64),
}

impl FileState {
    /// Returns the state of a file by the result of `stat`.
    #[must_use]
    pub fn of(facts: &impl MetadataExt) -> Self {
        let changed = (facts.mtime(), facts.mtime_nsec());
        Self { inode: facts.ino(), size: facts.size(), changed }
    }
}
