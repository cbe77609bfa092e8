//! What `becalm undo` did: a line a file, or one JSON object.

use std::io::{self, Write};

use becalm_lib::escape::shown;
use becalm_lib::json::{as_json, lossy};
use becalm_lib::words::{counted, grouped};
use bstr::BString;
use serde::Serialize;

use crate::terminal::style::Look;
use crate::undo::report::Report;
use crate::writing::text::{DoneJson, count, not_reached, tell_trouble};
use crate::writing::{Done, Outcome};

/// A loader cache that stays.
#[derive(Serialize)]
struct KeptJson<'a> {
    #[serde(serialize_with = "lossy")]
    path: &'a BString,
    others: usize,
}

#[derive(Serialize)]
struct UndoJson<'a> {
    schema: &'static str,
    dry_run: bool,
    interrupted: bool,
    files: Vec<DoneJson<'a>>,
    removed: Vec<DoneJson<'a>>,
    kept: Vec<KeptJson<'a>>,
    errors: Vec<becalm_lib::json::ErrorJson<'a>>,
}

/// `becalm/undo/1`.
///
/// # Errors
/// Where the output cannot be written.
pub(crate) fn json(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let json = UndoJson {
        schema: "becalm/undo/1",
        dry_run: report.dry_run,
        interrupted: report.interrupted,
        files: report.files.iter().map(DoneJson::of).collect(),
        removed: report.removed.iter().map(DoneJson::of).collect(),
        kept: report.kept.iter().map(|(path, others)| KeptJson { path, others: *others }).collect(),
        errors: becalm_lib::json::errors(&report.problems),
    };
    out.write_all(&as_json(&json))?;
    out.write_all(b"\n")
}

/// The summary; what was refused goes to stderr, a line each.
///
/// # Errors
/// Where the output cannot be written.
pub(crate) fn text(out: &mut impl Write, look: Look, report: &Report) -> io::Result<()> {
    for (path, done) in report.files.iter().chain(&report.removed) {
        tell_trouble(path, done);
    }
    let written = |list: &[(BString, Done)]| count(list, |o| matches!(o, Outcome::Written { .. }));
    let (restored, removed) = (written(&report.files), written(&report.removed));
    let would = if report.dry_run { "would be " } else { "" };
    let files = counted(restored, "file", "files");
    writeln!(out, "{}", look.strong(&format!("{files} {would}restored")))?;
    if removed > 0 {
        let all =
            report.removed.iter().filter(|(_, d)| matches!(d.outcome, Outcome::Written { .. }));
        for (path, _) in all {
            writeln!(out, "{would}removed  {}", shown(path.as_ref()))?;
        }
    }
    for (path, others) in &report.kept {
        let others = counted(*others as u64, "other object", "other objects");
        let cache = shown(path.as_ref());
        writeln!(
            out,
            "kept  {cache}: answers for {others} of its package; becalm undo of the package removes it"
        )?;
    }
    let unchanged = count(&report.files, |outcome| *outcome == Outcome::Unchanged);
    if unchanged > 0 {
        writeln!(out, "{} not changed by becalm", grouped(unchanged))?;
    }
    not_reached(out, look, &report.files)
}
