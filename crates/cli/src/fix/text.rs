//! What `becalm fix` did or would do: a screen, or one JSON object.

use std::io::{self, Write};

use becalm_core::cost::SearchCost;
use becalm_core::strategy::{Creation, FilePlan, Finding, PlannedAnswer, Severity};
use becalm_lib::escape::shown;
use becalm_lib::fix::judge::Start;
use becalm_lib::fix::options::Strategy;
use becalm_lib::json::{as_json, lossy};
use becalm_lib::words::{counted, grouped};
use bstr::{BString, ByteSlice};
use serde::Serialize;

use crate::fix::args::FixArgs;
use crate::fix::report::Report;
use crate::terminal::note;
use crate::terminal::style::Look;
use crate::writing::text::{DoneJson, count, not_reached, tell_trouble};
use crate::writing::{Done, Outcome};

/// Findings of one kind that a screen names; the JSON has all.
const SHOWN: usize = 10;

#[derive(Serialize)]
struct FixJson<'a> {
    schema: &'static str,
    #[serde(rename = "carrier")]
    strategy: &'static str,
    dry_run: bool,
    interrupted: bool,
    plan: Vec<FileJson<'a>>,
    creations: Vec<CreationJson<'a>>,
    files: Vec<DoneJson<'a>>,
    made: Vec<DoneJson<'a>>,
    findings: Vec<FindingJson<'a>>,
    programs: Vec<StartJson<'a>>,
    errors: Vec<becalm_lib::json::ErrorJson<'a>>,
}

/// What is proposed for one file.
#[derive(Serialize)]
struct FileJson<'a> {
    #[serde(serialize_with = "lossy")]
    path: &'a BString,
    edits: usize,
    outside: bool,
    answers: Vec<AnswerJson<'a>>,
}

#[derive(Serialize)]
struct AnswerJson<'a> {
    #[serde(serialize_with = "lossy")]
    needed: &'a BString,
    #[serde(serialize_with = "becalm_lib::json::lossy_option")]
    exact: &'a Option<BString>,
    hints: Vec<String>,
}

#[derive(Serialize)]
struct CreationJson<'a> {
    #[serde(serialize_with = "lossy")]
    path: &'a BString,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    length: Option<usize>,
}

#[derive(Serialize)]
struct FindingJson<'a> {
    #[serde(serialize_with = "lossy")]
    path: &'a BString,
    #[serde(serialize_with = "becalm_lib::json::lossy_option")]
    needed: &'a Option<BString>,
    severity: &'static str,
    what: String,
}

#[derive(Serialize)]
struct StartJson<'a> {
    #[serde(serialize_with = "lossy")]
    path: &'a BString,
    before: SearchCost,
    after: Option<SearchCost>,
}

/// `becalm/fix/1`.
///
/// # Errors
/// Where the output cannot be written.
pub(crate) fn json(out: &mut impl Write, args: &FixArgs, report: &Report) -> io::Result<()> {
    let json = FixJson {
        schema: "becalm/fix/1",
        strategy: strategy(args.with),
        dry_run: report.dry_run,
        interrupted: report.interrupted,
        plan: report.plan.files.iter().map(|planned| file(report, planned)).collect(),
        creations: report.plan.creations.iter().map(creation).collect(),
        files: report.done.iter().map(DoneJson::of).collect(),
        made: report.made.iter().map(DoneJson::of).collect(),
        findings: report.plan.findings.iter().map(finding).collect(),
        programs: report.starts.iter().map(start).collect(),
        errors: becalm_lib::json::errors(&report.problems),
    };
    out.write_all(&as_json(&json))?;
    out.write_all(b"\n")
}

fn start(start: &Start) -> StartJson<'_> {
    StartJson { path: &start.path, before: start.before, after: start.after }
}

fn file<'a>(report: &Report, file: &'a FilePlan) -> FileJson<'a> {
    let answers = file.answers.iter().map(answer).collect();
    let outside = report.outside.contains(&file.path);
    FileJson { path: &file.path, edits: file.edits.len(), outside, answers }
}

fn answer(answer: &PlannedAnswer) -> AnswerJson<'_> {
    let hints = answer.hints.iter().map(|hint| hint.to_str_lossy().into_owned()).collect();
    AnswerJson { needed: &answer.needed, exact: &answer.exact, hints }
}

fn creation(creation: &Creation) -> CreationJson<'_> {
    let (path, kind, target, length) = match creation {
        Creation::Directory(path) => (path, "directory", None, None),
        Creation::Link { path, target } => {
            (path, "link", Some(target.to_str_lossy().into_owned()), None)
        }
        Creation::File { path, bytes } => (path, "file", None, Some(bytes.len())),
    };
    CreationJson { path, kind, target, length }
}

fn finding(finding: &Finding) -> FindingJson<'_> {
    let severity = match finding.what.severity() {
        Severity::Skipped => "passed-over",
        Severity::Deferred => "left",
        Severity::Conflict => "conflict",
        Severity::Refused => "refused",
    };
    let what = finding.what.to_string();
    FindingJson { path: &finding.path, needed: &finding.needed, severity, what }
}

/// The strategy's name, as the flag has it.
fn strategy(name: Strategy) -> &'static str {
    match name {
        Strategy::Note => "note",
        Strategy::Absolute => "absolute",
        Strategy::Farm => "farm",
        Strategy::Ldcache => "ldcache",
        Strategy::Audit => "audit",
    }
}

/// One screen; what was refused goes to stderr, a line each.
///
/// # Errors
/// Where the output cannot be written.
pub(crate) fn text(
    out: &mut impl Write,
    look: Look,
    args: &FixArgs,
    report: &Report,
) -> io::Result<()> {
    for (path, done) in report.done.iter().chain(&report.made) {
        tell_trouble(path, done);
    }
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
    write_starts(out, look, args, &report.starts)?;
    not_reached(out, look, &report.done)
}

fn words(finding: &Finding) -> String {
    match &finding.needed {
        Some(needed) => format!("{}: {}", shown(needed.as_ref()), finding.what),
        None => finding.what.to_string(),
    }
}

/// What would be written, file by file.
fn write_plan(out: &mut impl Write, look: Look, report: &Report) -> io::Result<()> {
    for file in &report.plan.files {
        let state = if file.edits.is_empty() { "  (nothing to do)" } else { "" };
        writeln!(out, "{}{state}", look.strong(&shown(file.path.as_ref())))?;
        for answer in &file.answers {
            let hints = answer.hints.iter().map(|hint| format!("?{}", shown(hint.as_ref())));
            let exact = answer.exact.iter().map(|path| shown(path.as_ref()).to_string());
            let list: Vec<String> = hints.chain(exact).collect();
            let list = if list.is_empty() { "searched as before".into() } else { list.join(", ") };
            writeln!(out, "  {}  {list}", shown(answer.needed.as_ref()))?;
        }
    }
    for creation in &report.plan.creations {
        let path = shown(creation.path());
        match creation {
            Creation::Directory(_) => writeln!(out, "directory  {path}")?,
            Creation::Link { target, .. } => {
                writeln!(out, "link       {path} -> {}", shown(target.as_ref()))?;
            }
            Creation::File { bytes, .. } => {
                writeln!(out, "file       {path}, {} bytes", grouped(bytes.len() as u64))?;
            }
        }
    }
    let files = report.plan.files.iter().filter(|file| !file.edits.is_empty()).count() as u64;
    let made = report.plan.creations.len() as u64;
    let files = counted(files, "file", "files");
    let line = format!("{files} would be changed, {} made", grouped(made));
    writeln!(out, "{}", look.strong(&line))
}

fn write_outcome(out: &mut impl Write, look: Look, report: &Report) -> io::Result<()> {
    let is_written = |outcome: &Outcome| matches!(outcome, Outcome::Written { .. });
    let written = count(&report.done, is_written);
    let made = count(&report.made, is_written);
    let added: i64 = report.done.iter().chain(&report.made).map(|(_, done)| grown(done)).sum();
    let without_edits = report.plan.files.iter().filter(|file| file.edits.is_empty()).count();
    let unchanged = count(&report.done, |o| *o == Outcome::Unchanged) + without_edits as u64;
    let line = format!(
        "{} changed, {} made, {} as they should be; {} bytes added",
        counted(written, "file", "files"),
        grouped(made),
        grouped(unchanged),
        grouped(added.unsigned_abs()),
    );
    writeln!(out, "{}", look.strong(&line))
}

/// The files outside the named paths that were changed, each by its name.
fn write_outside(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let written = |path: &BString| {
        let is_it = |(done, outcome): &(BString, Done)| {
            done == path && matches!(outcome.outcome, Outcome::Written { .. })
        };
        report.dry_run || report.done.iter().any(is_it)
    };
    for path in report.outside.iter().filter(|path| written(path)) {
        writeln!(out, "outside the named paths  {}", shown(path.as_ref()))?;
    }
    Ok(())
}

fn grown(done: &Done) -> i64 {
    match done.outcome {
        Outcome::Written { old_length, new_length } => new_length as i64 - old_length as i64,
        _ => 0,
    }
}

/// What the plan leaves to the plain search or passes over: the kinds, and a few of each.
fn write_findings(out: &mut impl Write, report: &Report) -> io::Result<()> {
    for (severity, word) in [(Severity::Deferred, "left"), (Severity::Skipped, "passed over")] {
        let all: Vec<&Finding> = {
            let findings = report.plan.findings.iter();
            findings.filter(|finding| finding.what.severity() == severity).collect()
        };
        for finding in all.iter().take(SHOWN) {
            writeln!(out, "{word}  {}: {}", shown(finding.path.as_ref()), words(finding))?;
        }
        if all.len() > SHOWN {
            writeln!(
                out,
                "{word}  and {} more (--json has all)",
                grouped((all.len() - SHOWN) as u64)
            )?;
        }
    }
    Ok(())
}

/// What the programs' starts cost and would cost.
fn write_starts(
    out: &mut impl Write,
    look: Look,
    args: &FixArgs,
    starts: &[Start],
) -> io::Result<()> {
    let reader = match args.with {
        Strategy::Note => " with a loader that reads notes",
        Strategy::Ldcache => " with a loader that reads package caches",
        Strategy::Absolute | Strategy::Farm | Strategy::Audit => "",
    };
    for start in starts.iter().take(SHOWN) {
        let before = grouped(start.before.misses());
        let after = match start.after {
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
        writeln!(out, "storm  all {programs} programs: {before} misses -> {after}{reader}")?;
    }
    Ok(())
}
