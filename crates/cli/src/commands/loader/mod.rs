//! `becalm loader`: builds patched loaders ([`build`]) and tries loaders ([`attempt`]).

mod attempt;
mod build;
pub(crate) mod fixture;
mod minimal;
mod needs;
mod source;
mod steps;

use anyhow::Result;

use crate::exit_code::ExitStatus;
use crate::flags::LoaderArgs;

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
