//! What `becalm verify` found: a line a finding, or one JSON object.

use std::io::{self, Write};

use becalm_core::strategy::verify::{Checked, Strategy, Verdict};
use becalm_lib::escape::shown;
use becalm_lib::json::{as_json, lossy};
use becalm_lib::words::{counted, grouped};
use bstr::{BString, ByteSlice};
use serde::Serialize;

use crate::terminal::style::Look;
use crate::verify::load::Loads;
use crate::verify::report::Report;

#[derive(Serialize)]
struct VerifyJson<'a> {
    schema: &'static str,
    looked_at: usize,
    objects: Vec<ObjectJson<'a>>,
    loads: Vec<LoadsJson<'a>>,
    errors: Vec<becalm_lib::json::ErrorJson<'a>>,
}

#[derive(Serialize)]
struct ObjectJson<'a> {
    #[serde(serialize_with = "lossy")]
    path: &'a BString,
    answers: Vec<AnswerJson<'a>>,
}

#[derive(Serialize)]
struct AnswerJson<'a> {
    #[serde(rename = "carrier")]
    strategy: &'static str,
    #[serde(serialize_with = "lossy")]
    needed: &'a BString,
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    says: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    is: Option<String>,
}

#[derive(Serialize)]
struct LoadsJson<'a> {
    #[serde(serialize_with = "lossy")]
    path: &'a BString,
    equal: bool,
    objects: usize,
    lost: Vec<String>,
    gained: Vec<String>,
    reordered: bool,
}

/// `becalm/verify/1`.
///
/// # Errors
/// Where the output cannot be written.
pub(crate) fn json(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let json = VerifyJson {
        schema: "becalm/verify/1",
        looked_at: report.looked_at,
        objects: report
            .objects
            .iter()
            .map(|object| ObjectJson {
                path: &object.path,
                answers: object.answers.iter().map(answer).collect(),
            })
            .collect(),
        loads: report.loads.iter().map(|(path, loads)| compared(path, loads)).collect(),
        errors: becalm_lib::json::errors(&report.problems),
    };
    out.write_all(&as_json(&json))?;
    out.write_all(b"\n")
}

fn compared<'a>(path: &'a BString, loads: &Loads) -> LoadsJson<'a> {
    LoadsJson {
        path,
        equal: loads.is_equal(),
        objects: loads.objects,
        lost: loads.lost.iter().map(text_of).collect(),
        gained: loads.gained.iter().map(text_of).collect(),
        reordered: loads.reordered,
    }
}

fn answer(checked: &Checked) -> AnswerJson<'_> {
    let (verdict, says, is) = match &checked.verdict {
        Verdict::True => ("true", None, None),
        Verdict::Skips(dir) => ("skips", Some(text_of(dir)), None),
        Verdict::Stale { says, is } => {
            ("stale", says.as_ref().map(text_of), is.as_ref().map(text_of))
        }
        Verdict::Missing(is) => ("missing", None, Some(text_of(is))),
        Verdict::Superfluous => ("superfluous", None, None),
        Verdict::Malformed(error) => ("malformed", Some(error.to_string()), None),
    };
    AnswerJson { strategy: name(checked.strategy), needed: &checked.needed, verdict, says, is }
}

fn text_of(path: &BString) -> String {
    path.to_str_lossy().into_owned()
}

fn name(strategy: Strategy) -> &'static str {
    match strategy {
        Strategy::Note => "note",
        Strategy::Absolute => "absolute",
        Strategy::Farm => "farm",
        Strategy::PackageCache => "ldcache",
    }
}

/// The findings and remarks, a line each, and the sums.
///
/// # Errors
/// Where the output cannot be written.
pub(crate) fn text(out: &mut impl Write, look: Look, report: &Report) -> io::Result<()> {
    let mut answers = 0;
    let mut stale = 0;
    for object in &report.objects {
        for checked in &object.answers {
            answers += 1;
            stale += u64::from(checked.verdict.is_finding());
            if let Some(line) = words(look, checked) {
                writeln!(out, "{}: {line}", shown(object.path.as_ref()))?;
            }
        }
    }
    for (path, loads) in &report.loads {
        write_loads(out, look, path, loads)?;
    }
    let objects = counted(report.objects.len() as u64, "object", "objects");
    let line = format!(
        "{} in {objects} (of {} looked at): {}",
        counted(answers, "answer", "answers"),
        grouped(report.looked_at as u64),
        match stale {
            0 => look.good("all true"),
            stale => look.bad(&format!("{} not true", grouped(stale))),
        }
    );
    writeln!(out, "{line}")
}

/// What is to be said of one answer; nothing where it is true.
fn words(look: Look, checked: &Checked) -> Option<String> {
    let strategy = name(checked.strategy);
    let needed = shown(checked.needed.as_ref());
    let what = match &checked.verdict {
        Verdict::True => return None,
        Verdict::Skips(dir) => {
            format!(
                "{} (passes over {}, which may change)",
                look.faint("true"),
                shown(dir.as_ref())
            )
        }
        Verdict::Stale { says, is } => {
            let path = |path: &Option<BString>| {
                path.as_ref().map_or("nothing".to_owned(), |path| shown(path.as_ref()).to_string())
            };
            format!("{}: leads to {}, the search to {}", look.bad("stale"), path(says), path(is))
        }
        Verdict::Missing(is) => {
            format!("{}: the search leads to {}", look.bad("missing"), shown(is.as_ref()))
        }
        Verdict::Superfluous => format!("{}: it does not need it", look.faint("superfluous")),
        Verdict::Malformed(error) => format!("{}: {error}", look.bad("malformed")),
    };
    Some(match needed.is_empty() {
        true => format!("{strategy}: {what}"),
        false => format!("{strategy}: {needed}: {what}"),
    })
}

fn write_loads(out: &mut impl Write, look: Look, path: &BString, loads: &Loads) -> io::Result<()> {
    let path = shown(path.as_ref());
    if loads.is_equal() {
        let objects = counted(loads.objects as u64, "library", "libraries");
        return writeln!(out, "{path}: loads the same {objects} in the same order");
    }
    for gained in &loads.gained {
        writeln!(out, "{path}: {} {}", look.bad("loads"), shown(gained.as_ref()))?;
    }
    for lost in &loads.lost {
        writeln!(out, "{path}: {} {}", look.bad("does not load"), shown(lost.as_ref()))?;
    }
    if loads.reordered {
        writeln!(out, "{path}: {}", look.bad("loads the same in another order"))?;
    }
    Ok(())
}
