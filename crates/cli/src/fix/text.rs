//! Text output of `becalm fix`: the plan or its result.

use std::collections::BTreeSet;
use std::io::{self, Write};

use becalm_core::fs::Added;
use becalm_core::strategy::row::Unit;
use becalm_core::strategy::{Finding, Severity};
use becalm_lib::escape::shown;
use becalm_lib::fix::judge::Start;
use becalm_lib::fix::report::{PlannedFile, Report};
use becalm_lib::words::{counted, grouped};
use becalm_lib::writing::{Changed, Outcome};
use bstr::BString;

use crate::terminal::changed::{count, not_reached, tell_trouble};
use crate::terminal::note;
use crate::terminal::style::Look;

/// Findings of one kind that a screen lists; the JSON has all.
const SHOWN: usize = 10;

/// Writes one screen; refused files are printed on stderr, a line each.
///
/// # Errors
/// Returns an error if the output cannot be written.
pub(crate) fn text(out: &mut impl Write, look: Look, report: &Report) -> io::Result<()> {
    tell_trouble(report.files.iter().chain(&report.made));
    for refused in report.refusals() {
        note(refused.path.as_ref(), &words(refused));
    }
    if report.dry_run {
        write_plan(out, look, report)?;
    } else {
        write_outcome(out, look, report)?;
    }
    write_outside(out, report)?;
    write_findings(out, report)?;
    write_starts(out, look, report)?;
    not_reached(out, look, &report.files)
}

fn words(finding: &Finding) -> String {
    match &finding.needed {
        Some(needed) => format!("{}: {}", shown(needed.as_ref()), finding.what),
        None => finding.what.to_string(),
    }
}

/// Writes the plan, file by file.
fn write_plan(out: &mut impl Write, look: Look, report: &Report) -> io::Result<()> {
    for file in &report.plan {
        let state = if file.edits == 0 { "  (nothing to do)" } else { "" };
        writeln!(out, "{}{state}", look.strong(&shown(file.path.as_ref())))?;
        for answer in &file.answers {
            let hints = answer.hints.iter().map(|hint| format!("?{}", shown(hint.as_ref())));
            let exact = answer.exact.iter().map(|path| shown(path.as_ref()));
            let list: Vec<String> = hints.chain(exact).collect();
            let list = if list.is_empty() { "searched as before".into() } else { list.join(", ") };
            writeln!(out, "  {}  {list}", shown(answer.needed.as_ref()))?;
        }
    }
    for creation in &report.creations {
        let path = shown(creation.path.as_ref());
        match &creation.kind {
            Added::Directory => writeln!(out, "directory  {path}")?,
            Added::Link { target } => {
                writeln!(out, "link       {path} -> {}", shown(target.as_ref()))?;
            }
            Added::File { bytes } => {
                writeln!(out, "file       {path}, {} bytes", grouped(bytes.len() as u64))?;
            }
        }
    }
    let files = report.plan.iter().filter(|file| file.edits > 0).count() as u64;
    let made = report.creations.len() as u64;
    let files = counted(files, "file", "files");
    let line = format!("{files} would be changed, {} made", grouped(made));
    writeln!(out, "{}", look.strong(&line))
}

fn write_outcome(out: &mut impl Write, look: Look, report: &Report) -> io::Result<()> {
    let written = count(&report.files, Outcome::is_written);
    let made = count(&report.made, Outcome::is_written);
    let all = report.files.iter().chain(&report.made);
    let grown = |file: &Changed| match file.outcome {
        Outcome::Written { old_length, new_length } => new_length as i64 - old_length as i64,
        _ => 0,
    };
    let added: i64 = all.map(grown).sum();
    let refused: BTreeSet<&BString> = report.refusals().map(|finding| &finding.path).collect();
    let is_refused = |file: &PlannedFile| file.withdrawn || refused.contains(&file.path);
    let without_edits = || report.plan.iter().filter(|file| file.edits == 0);
    let refused = match without_edits().filter(|file| is_refused(file)).count() as u64 {
        0 => String::new(),
        number => format!(", {} refused", grouped(number)),
    };
    let unchanged = without_edits().filter(|file| !is_refused(file)).count() as u64
        + count(&report.files, |outcome| *outcome == Outcome::Unchanged);
    let line = format!(
        "{} changed, {} made, {} up to date{refused}; {} bytes added",
        counted(written, "file", "files"),
        grouped(made),
        grouped(unchanged),
        grouped(added.unsigned_abs()),
    );
    writeln!(out, "{}", look.strong(&line))
}

/// Writes the files outside the named paths that were changed, each by its name.
fn write_outside(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let is_written = |path: &BString| {
        report.files.iter().any(|file| file.path == *path && file.outcome.is_written())
    };
    for file in report.plan.iter().filter(|file| file.outside) {
        if report.dry_run || is_written(&file.path) {
            writeln!(out, "outside the named paths  {}", shown(file.path.as_ref()))?;
        }
    }
    Ok(())
}

/// Writes the findings of the plan, deferred and skipped: the kinds, and a few of each.
fn write_findings(out: &mut impl Write, report: &Report) -> io::Result<()> {
    for (severity, word) in [(Severity::Deferred, "left"), (Severity::Skipped, "passed over")] {
        let findings = report.findings.iter();
        let all: Vec<&Finding> = findings.filter(|it| it.severity == severity).collect();
        for finding in all.iter().take(SHOWN) {
            writeln!(out, "{word}  {}: {}", shown(finding.path.as_ref()), words(finding))?;
        }
        if all.len() > SHOWN {
            let more = grouped((all.len() - SHOWN) as u64);
            writeln!(out, "{word}  and {more} more (--json has all)")?;
        }
    }
    Ok(())
}

/// Writes the cost of the programs' starts before and after.
fn write_starts(out: &mut impl Write, look: Look, report: &Report) -> io::Result<()> {
    let starts = &report.programs;
    let row = report.strategy.row();
    let reader = row.format.map(|format| format!(" with a loader that reads {format}"));
    let reader = reader.unwrap_or_default();
    // The cache of a whole closure is for Guix's loader, which the model does not have.
    let is_for_guix = report.closure && matches!(row.unit, Unit::Package(_));
    const NOT_PREDICTED: &str = "not predicted for Guix's loader, which --closure is for";
    for start in starts.iter().take(SHOWN) {
        let before = grouped(start.before.misses());
        let after = match start.after {
            Some(_) if is_for_guix => NOT_PREDICTED.to_owned(),
            Some(after) => format!("{} misses{reader}", grouped(after.misses())),
            None => look.bad("refused: it would load something else"),
        };
        writeln!(out, "storm  {}: {before} misses -> {after}", shown(start.path.as_ref()))?;
    }
    if starts.len() > SHOWN {
        let total = |of: fn(&Start) -> u64| grouped(starts.iter().map(of).sum());
        let before = total(|start| start.before.misses());
        let after = total(|start| start.after.unwrap_or(start.before).misses());
        let programs = grouped(starts.len() as u64);
        let after = if is_for_guix { NOT_PREDICTED.to_owned() } else { after + &reader };
        writeln!(out, "storm  all {programs} programs: {before} misses -> {after}")?;
    }
    Ok(())
}
