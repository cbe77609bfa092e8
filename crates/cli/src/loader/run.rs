//! `becalm loader`: tests loaders ([`becalm_lib::loader::check`]).

use anyhow::Result;
use becalm_lib::loader::check::check;

use crate::exit_code::ExitStatus;
use crate::loader::args::LoaderArgs;
use crate::loader::text;
use crate::terminal;

/// Tests a loader and prints what it reads.
///
/// # Errors
/// Returns an error if a loader cannot be tested.
pub(crate) fn run(args: &LoaderArgs) -> Result<ExitStatus> {
    let LoaderArgs::Check(args) = args;
    let report = check(&args.loader, args.store.as_deref())?;
    terminal::write_report(args.json, &report, |out| text::text(out, &report))?;
    let finds = report.notes || report.caches == Some(true);
    Ok(if finds { ExitStatus::Fine } else { ExitStatus::Finding })
}
