//! Options for writing files, which are flags of `becalm fix`, `undo` and `elf`.

/// Options for writing files. The defaults are the safest choices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
pub struct WriteOptions {
    /// Write into the file itself instead of putting a new one in its place
    ///
    /// Keeps the inode, for files that have several names or are open. `becalm fix` appends the old
    /// bytes to the file and syncs them before it changes the first byte, and `becalm undo` removes
    /// them last, so that `becalm undo` can restore the file after a crash of either.
    // A process that executes the file may crash.
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Writing"))]
    pub in_place: bool,

    /// Action for files with several names
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "WHAT", default_value = "refuse", help_heading = "Writing")
    )]
    pub hardlinks: HardLinks,

    /// Change set-id files as well
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Writing"))]
    pub setuid: bool,

    /// Keep the times of the last access and change
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Writing"))]
    pub keep_times: bool,

    /// Do not sync files to disk
    ///
    /// For scratch stores and images: after a power failure files may be damaged.
    // Otherwise each step is synced before the next step depends on it. Killing the process is
    // harmless with this too.
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Writing"))]
    pub no_sync: bool,
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
