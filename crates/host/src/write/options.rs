//! Options for writing files.

/// Options for writing files. The defaults are the safest choices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Overwrite the file and keep its inode, instead of replacing it. Other names of the file and
    /// processes that have it open see the change. A process that executes the file may crash. A
    /// crash during the write leaves a partly written file, with the old bytes in its trailer.
    pub in_place: bool,
    /// Treatment of a file with several names.
    pub hard_links: HardLinks,
    /// Also write set-uid and set-gid files.
    pub set_id: bool,
    /// Preserve the times of the last read and the last change.
    pub keep_times: bool,
    /// Sync nothing: a power failure may leave any state, including empty files. This is for scratch
    /// stores and containers that are discarded after a failure. Killing the process is still
    /// harmless. Otherwise each step is synced before the next step depends on it.
    pub unsynced: bool,
}

/// Treatment of a file with several names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum HardLinks {
    /// Skip it and print the reason.
    #[default]
    Refuse,
    /// Change the name given, and leave the other names with the old file.
    Break,
    /// Change the file in place, under all its names.
    Keep,
}
