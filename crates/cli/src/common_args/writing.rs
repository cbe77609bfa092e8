//! The arguments that say how files are written; the same on each command that changes files.

use becalm_host::write::{Durability, HardLinks, WriteOptions};
use clap::{Args, ValueEnum};

/// Action for a file with several names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HardlinksArg {
    /// Leave it as it is, and say so.
    Refuse,
    /// Change the name given, and leave the other names with the old file.
    Break,
    /// Change the file in place, under all its names.
    Keep,
}

/// How files are written.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct WritingArgs {
    /// Write into the file itself instead of putting a new one in its place
    ///
    /// Keeps the inode, for files that have several names or are open. What stood there is
    /// written behind the file and synced before the first byte is changed, so that `becalm
    /// undo` can take back what a crash left half done.
    #[arg(long, help_heading = "Writing")]
    pub in_place: bool,

    /// Action for files with several names
    #[arg(long, value_name = "WHAT", default_value = "refuse", help_heading = "Writing")]
    pub hardlinks: HardlinksArg,

    /// Change set-id files as well
    #[arg(long, help_heading = "Writing")]
    pub setuid: bool,

    /// Keep the times of the last access and change
    #[arg(long, help_heading = "Writing")]
    pub keep_times: bool,

    /// Do not wait until the disk has it
    ///
    /// For scratch stores and images: after a power failure files may be damaged.
    #[arg(long, help_heading = "Writing")]
    pub no_sync: bool,
}

impl WritingArgs {
    /// How files are written, as the library takes it.
    #[must_use]
    pub(crate) fn options(&self) -> WriteOptions {
        WriteOptions {
            in_place: self.in_place,
            hard_links: match self.hardlinks {
                HardlinksArg::Refuse => HardLinks::Refuse,
                HardlinksArg::Break => HardLinks::Break,
                HardlinksArg::Keep => HardLinks::Keep,
            },
            set_id: self.setuid,
            keep_times: self.keep_times,
            durability: match self.no_sync {
                true => Durability::Unsynced,
                false => Durability::Synced,
            },
        }
    }
}
