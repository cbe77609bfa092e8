//! The arguments of `becalm check` about files.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

/// Flags about the files that a start needs.
#[derive(Debug, Args)]
pub(crate) struct FilesArgs {
    /// List the files that a start needs: program, interpreter, every library, and the links to
    /// them
    ///
    /// One a line, each once, for sbcast, cpio, mksquashfs or an initramfs. Plugins and data that
    /// the program opens after its entry point are not included. With --json, the files become part
    /// of the object. Not together with --ndjson, --tree, --probes, --against, --symbols or
    /// --bindings.
    #[arg(
        long,
        conflicts_with_all = ["tree", "probes", "against", "symbols", "bindings"],
        help_heading = "Files"
    )]
    pub files: bool,

    /// Format of the list
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "lines",
        requires = "files",
        conflicts_with = "json",
        help_heading = "Files"
    )]
    pub format: Format,

    /// The mount point of the CernVM-FS repository; without it, the program's below /cvmfs
    #[arg(
        long,
        value_name = "DIR",
        value_hint = ValueHint::DirPath,
        requires = "files",
        help_heading = "Files"
    )]
    pub repository: Option<PathBuf>,
}

/// Format of a list of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// One path a line.
    Lines,
    /// A NUL after each path, for names with newlines.
    Null,
    /// A file bundle of CernVM-FS, to be published as .cvmfsbundle-NAME beside the program NAME.
    CvmfsBundle,
}
