//! `becalm loader`: builds patched loaders ([`build`]) and tests loaders
//! ([`becalm_lib::loader::check`]).

use anyhow::Result;
use becalm_lib::loader::check::check;

use crate::exit_code::ExitStatus;
use crate::loader::args::{LoaderArgs, TryArgs};
use crate::loader::{build, text};
use crate::terminal;

/// Runs the command.
///
/// # Errors
/// Returns an error if a step of a build fails, or if a loader cannot be tested.
pub(crate) fn run(args: &LoaderArgs) -> Result<ExitStatus> {
    match args {
        LoaderArgs::Build(args) => build::run(args),
        LoaderArgs::Check(args) => try_loader(args),
    }
}

/// Tests a loader and prints what it reads.
fn try_loader(args: &TryArgs) -> Result<ExitStatus> {
    let report = check(&args.loader, args.store.as_deref())?;
    terminal::write_report(args.json, &report, |out| text::text(out, &report))?;
    let finds = report.notes || report.caches == Some(true);
    Ok(if finds { ExitStatus::Fine } else { ExitStatus::Finding })
}
