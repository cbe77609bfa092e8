//! `becalm cache`: prints what is kept beside indexes, and removes it.

use std::io::Write;

use anyhow::Result;
use becalm_lib::cache::{self, CacheReport};
use becalm_lib::escape::shown;
use becalm_lib::pages::PagesState;
use becalm_lib::path::path_bytes;
use becalm_lib::words::counted;

use crate::cache::args::CacheArgs;
use crate::doctor::text::{looked_up, mib};
use crate::exit_code::ExitStatus;
use crate::terminal;
use crate::terminal::style::{Look, When};

/// Prints what is kept, and removes it with `--clear`.
///
/// # Errors
/// Returns an error if a file cannot be removed, or the output cannot be written.
pub(crate) fn run(args: &CacheArgs, color: When) -> Result<ExitStatus> {
    let mut report = cache::report();
    if args.clear && !args.dry_run {
        report = cache::clear(report)?;
    }
    if args.metrics {
        let counts = report.trees.map(|trees| trees.counts).unwrap_or_default();
        anstream::stdout().write_all(counts.metrics().as_bytes())?;
        return Ok(ExitStatus::Fine);
    }
    terminal::write_report(args.json, &report, |out| {
        out.write_all(text(args, color, &report).as_bytes())
    })?;
    Ok(ExitStatus::Fine)
}

fn text(args: &CacheArgs, color: When, report: &CacheReport) -> String {
    let title = match (args.clear, args.dry_run) {
        (true, false) => "removed",
        (true, true) => "to remove",
        (false, _) => "kept",
    };
    let mut text = String::new();
    if let Some(trees) = &report.trees {
        looked_up(&mut text, Look::of_stdout(color), title, usize::MAX, trees);
    }
    if let Some(PagesState { folder, files, bytes }) = &report.pages {
        let folder = shown(path_bytes(folder).as_ref());
        let files = counted(*files, "file", "files");
        let size = mib(*bytes);
        text.push_str(&format!("{title:12}{folder}: {files} of ready pages, {size}\n"));
    }
    if text.is_empty() {
        text.push_str("nothing is kept: no start on a network file system was learned\n");
    }
    text
}
