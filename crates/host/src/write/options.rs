//! How a file is to be written.

/// How files are to be written. The default is the careful one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteOptions {
    /// Keep the inode and write over it, instead of putting a new file in its place. Other
    /// names of the file and processes that have it open see the change; a process that runs
    /// from it may crash. A crash in between leaves the file in part written, with the old
    /// bytes in its trailer.
    pub in_place: bool,
    /// What to do with a file of several names.
    pub hard_links: HardLinks,
    /// Write set-uid and set-gid files too.
    pub set_id: bool,
    /// Keep the times of last reading and last change.
    pub keep_times: bool,
    /// Whether to wait for the disk.
    pub durability: Durability,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            in_place: false,
            hard_links: HardLinks::Refuse,
            set_id: false,
            keep_times: false,
            durability: Durability::Synced,
        }
    }
}

/// What to do with a file of several names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HardLinks {
    /// Refuse it.
    #[default]
    Refuse,
    /// Give this name a file of its own; the other names keep the old content.
    Break,
    /// Keep them one file, which means writing in place.
    Keep,
}

/// What a power failure may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Nothing: each step has reached the disk before the next one relies on it.
    #[default]
    Synced,
    /// Anything, up to empty files: for scratch stores and containers that are thrown away
    /// if the machine goes down. A killed process is as harmless as ever.
    Unsynced,
}
