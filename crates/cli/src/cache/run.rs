//! `becalm cache`: prints what is kept for programs on network file systems, and removes it.

use std::io::Write;

use anyhow::Result;
use becalm_lib::trees::state::{self, CacheReport};

use crate::cache::args::CacheArgs;
use crate::doctor::text::looked_up;
use crate::exit_code::ExitStatus;
use crate::terminal;
use crate::terminal::style::{Look, When};

/// Prints what is kept, and removes it with `--clear`.
///
/// # Errors
/// Returns an error if a file cannot be removed, or the output cannot be written.
pub(crate) fn run(args: &CacheArgs, color: When) -> Result<ExitStatus> {
    let trees = state::state();
    let cleared = args.clear && !args.dry_run;
    if let Some(trees) = trees.as_ref().filter(|_| cleared) {
        state::clear(&trees.folder)?;
    }
    let report = CacheReport { cleared, trees };
    terminal::write_report(args.json, &report, |out| {
        out.write_all(text(args, color, &report).as_bytes())
    })?;
    Ok(ExitStatus::Fine)
}

fn text(args: &CacheArgs, color: When, report: &CacheReport) -> String {
    let Some(trees) = &report.trees else {
        return "nothing is kept: no start on a network file system was learned\n".to_owned();
    };
    let title = match (args.clear, args.dry_run) {
        (true, false) => "removed",
        (true, true) => "to remove",
        (false, _) => "kept",
    };
    let mut text = String::new();
    looked_up(&mut text, Look::of_stdout(color), title, usize::MAX, trees);
    text
}
