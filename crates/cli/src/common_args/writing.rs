//! The arguments that control how files are written; the same for each command that changes files.

use becalm_host::write::{HardLinks, WriteOptions};
use clap::Args;

/// How files are written.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct WritingArgs {
    /// Write into the file itself instead of putting a new one in its place
    ///
    /// Keeps the inode, for files that have several names or are open. `becalm fix` appends the old
    /// bytes to the file and syncs them before it changes the first byte, and `becalm undo` removes
    /// them last, so that `becalm undo` can restore the file after a crash of either.
    #[arg(long, help_heading = "Writing")]
    pub in_place: bool,

    /// Action for files with several names
    #[arg(long, value_name = "WHAT", default_value = "refuse", help_heading = "Writing")]
    pub hardlinks: HardLinks,

    /// Change set-id files as well
    #[arg(long, help_heading = "Writing")]
    pub setuid: bool,

    /// Keep the times of the last access and change
    #[arg(long, help_heading = "Writing")]
    pub keep_times: bool,

    /// Do not sync files to disk
    ///
    /// For scratch stores and images: after a power failure files may be damaged.
    #[arg(long, help_heading = "Writing")]
    pub no_sync: bool,
}

impl WritingArgs {
    /// Returns the library's options for writing.
    pub(crate) fn options(&self) -> WriteOptions {
        WriteOptions {
            in_place: self.in_place,
            hard_links: self.hardlinks,
            set_id: self.setuid,
            keep_times: self.keep_times,
            unsynced: self.no_sync,
        }
    }
}
