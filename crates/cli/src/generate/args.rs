//! The arguments of `becalm generate`.

use std::path::PathBuf;

use clap::{Subcommand, ValueHint};
use clap_complete::Shell;

/// Files to generate.
#[derive(Debug, Subcommand)]
pub(crate) enum GenerateArgs {
    /// Write the manual pages
    Man {
        /// Output directory
        #[arg(value_hint = ValueHint::DirPath)]
        dir: PathBuf,
    },
    /// Write the completions of a shell to stdout
    Completions {
        /// Which shell
        shell: Shell,
    },
}
