//! `becalm check --files`: the files that a start needs, as a list.

use std::path::PathBuf;

use anyhow::Result;
use becalm_lib::files::StartFile;
use becalm_lib::files::bundle::Bundle;
use becalm_lib::json::as_json;
use bstr::BString;
use clap::{Args, ValueEnum, ValueHint};
use rustc_hash::FxHashSet;

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

/// The paths that were written, so that each is written once.
#[derive(Debug, Default)]
pub(crate) struct Written(FxHashSet<BString>);

impl Written {
    /// Returns the paths that were not written yet, each with this byte at its end.
    pub(crate) fn lines(&mut self, files: &[StartFile], end: u8) -> Vec<u8> {
        let mut text = Vec::new();
        for file in files.iter().filter(|file| self.0.insert(file.path.clone())) {
            text.extend_from_slice(&file.path);
            text.push(end);
        }
        text
    }

    /// Returns the files of a start in the format that the flags name.
    ///
    /// # Errors
    /// Returns an error if there is no bundle of these files.
    pub(crate) fn of_start(&mut self, args: &FilesArgs, files: &[StartFile]) -> Result<Vec<u8>> {
        Ok(match args.format {
            Format::Lines => self.lines(files, b'\n'),
            Format::Null => self.lines(files, 0),
            Format::CvmfsBundle => {
                let mut json = as_json(&Bundle::of(files, args.repository.as_deref())?);
                json.push(b'\n');
                json
            }
        })
    }
}
