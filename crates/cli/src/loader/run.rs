//! `becalm loader`: builds patched loaders ([`build`]) and tries loaders ([`attempt`]).

use anyhow::Result;

use crate::exit_code::ExitStatus;
use crate::loader::args::LoaderArgs;
use crate::loader::{attempt, build};

/// Does what was asked.
///
/// # Errors
/// Where a step of a build fails, or a loader cannot be tried.
pub(crate) fn run(args: &LoaderArgs) -> Result<ExitStatus> {
    match args {
        LoaderArgs::Build(args) => build::run(args),
        LoaderArgs::Check(args) => attempt::run(args),
    }
}
