//! The model against real loaders, on many objects.

use std::process::ExitCode;

use anyhow::Result;

/// What to compare.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {}

/// Compares.
///
/// # Errors
/// None yet.
pub fn run(_: &Options) -> Result<ExitCode> {
    Ok(ExitCode::FAILURE)
}
