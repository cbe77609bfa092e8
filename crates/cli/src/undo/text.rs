//! What `becalm undo` did: a line a file, or one JSON object.

use std::io::{self, Write};

use becalm_lib::escape::shown;
use becalm_lib::json::{as_json, lossy};
use becalm_lib::words::{counted, grouped};
use bstr::BString;
use serde::Serialize;

use crate::terminal::note;
use crate::terminal::style::Look;
use crate::undo::run::Report;
use crate::writing::{Done, Outcome};

/// One file or directory in the JSON.
#[derive(Serialize)]
pub(crate) struct DoneJson<'a> {
    #[serde(serialize_with = "lossy")]
    path: &'a BString,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    old_length: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    new_length: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    warnings: &'a [String],
}

impl<'a> DoneJson<'a> {
    pub(crate) fn of((path, done): &'a (BString, Done)) -> Self {
        let (status, lengths, reason) = match &done.outcome {
            Outcome::Written { old_length, new_length } => {
                ("written", Some((*old_length, *new_length)), None)
            }
            Outcome::Unchanged => ("unchanged", None, None),
            Outcome::Refused(why) => ("refused", None, Some(why.as_str())),
            Outcome::NotReached => ("not-reached", None, None),
        };
        Self {
            path,
            status,
            old_length: lengths.map(|(old, _)| old),
            new_length: lengths.map(|(_, new)| new),
            reason,
            warnings: &done.warnings,
        }
    }
}

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

/// How many have an outcome of a kind.
pub(crate) fn count(list: &[(BString, Done)], of: impl Fn(&Outcome) -> bool) -> u64 {
    list.iter().filter(|(_, done)| of(&done.outcome)).count() as u64
}

/// What a file's outcome or the editor has to complain of, on stderr.
pub(crate) fn tell_trouble(path: &BString, done: &Done) {
    if let Outcome::Refused(why) = &done.outcome {
        note(path.as_ref(), why);
    }
    for warning in &done.warnings {
        note(path.as_ref(), warning);
    }
}

/// How many files an interrupt left as they were.
pub(crate) fn not_reached(
    out: &mut impl Write,
    look: Look,
    files: &[(BString, Done)],
) -> io::Result<()> {
    match count(files, |outcome| *outcome == Outcome::NotReached) {
        0 => Ok(()),
        left => {
            let files = counted(left, "file is as it was", "files are as they were");
            writeln!(out, "{}", look.bad(&format!("interrupted: {files}")))
        }
    }
}
