//! The arguments of `becalm pack` and `becalm unpack`.

use std::path::PathBuf;

use becalm_lib::trees::pack::Format;
use clap::{Args, ValueHint};

/// The flags of `becalm pack`.
#[derive(Debug, Args)]
pub(crate) struct PackArgs {
    /// The commands, by the paths or names with which they are started; all that were learned without any
    ///
    /// A directory is packed whole, also what no start has looked up, for the commands that are named or all
    /// learned ones that use it. Starts with --check never need nothing else; others get what was learned.
    #[arg(value_name = "PROGRAM|TREE", value_hint = ValueHint::FilePath)]
    pub programs: Vec<PathBuf>,

    /// The file to write
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,

    /// Pack what a traced run used (becalm trace --files --json), of which nothing need be learned
    ///
    /// The commands are those of the run. A directory that is named is not packed whole: the files of the run below it are.
    #[arg(long, value_name = "RUN.json", value_hint = ValueHint::FilePath)]
    pub from: Option<PathBuf>,

    /// A file below the tree that changes whenever the tree does: if it is as it was, starts compare nothing
    /// else
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub generation: Option<PathBuf>,

    /// The form of the file [default: squashfs for a name that ends in .squashfs or .sqfs, else tar]
    #[arg(long, value_enum)]
    pub format: Option<Format>,

    /// Write one JSON object, schema becalm/pack/1
    #[arg(long)]
    pub json: bool,
}

/// The flags of `becalm unpack`.
#[derive(Debug, Args)]
pub(crate) struct UnpackArgs {
    /// The pack
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,

    /// Write one JSON object, schema becalm/pack/1
    #[arg(long)]
    pub json: bool,
}

impl PackArgs {
    /// Returns the form of the file.
    pub(crate) fn format(&self) -> Format {
        let ending = self.output.extension();
        let is_image = ending.is_some_and(|it| it == "squashfs" || it == "sqfs");
        self.format.unwrap_or(if is_image { Format::Squashfs } else { Format::Tar })
    }
}
