//! Text output of `becalm verify`, a line a finding.

use std::collections::BTreeMap;
use std::io::{self, Write};

use becalm_core::strategy::{Checked, Strategy, Verdict};
use becalm_lib::escape::shown;
use becalm_lib::verify::{Loads, Report};
use becalm_lib::words::{counted, grouped};
use bstr::BString;

use crate::terminal::style::Look;
use crate::verify::index_text;

/// Writes the findings and remarks, a line each, and the sums.
///
/// # Errors
/// Returns an error if the output cannot be written.
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
    for loads in &report.loads {
        write_loads(out, look, loads)?;
    }
    for verified in &report.indexes {
        index_text::text(out, look, verified)?;
    }
    for damaged in &report.damaged {
        index_text::damaged(out, look, damaged)?;
    }
    write_unjudged(out, look, report)?;
    let looked_at = counted(report.looked_at as u64, "object", "objects");
    if answers == 0 {
        let has_index = !report.indexes.is_empty() || !report.damaged.is_empty();
        if !report.unjudged.is_empty() {
            return writeln!(out, "nothing else to compare ({looked_at} looked at)");
        }
        return match (report.looked_at, has_index) {
            (0, true) => Ok(()),
            (0, false) => writeln!(out, "nothing was compared"),
            (_, true) => {
                writeln!(out, "{looked_at} looked at: no strategy to compare")
            }
            (_, false) => writeln!(
                out,
                "nothing to compare: no strategy and no index here ({looked_at} looked at)"
            ),
        };
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

/// Writes a line for each store whose farms and caches were not compared.
fn write_unjudged(out: &mut impl Write, look: Look, report: &Report) -> io::Result<()> {
    let mut stores: BTreeMap<(&BString, Strategy), u64> = BTreeMap::new();
    for unchecked in report.unjudged.iter().map(|it| &it.unchecked) {
        *stores.entry((&unchecked.store, unchecked.strategy)).or_default() += 1;
    }
    for ((store, strategy), number) in stores {
        let objects = counted(number, "object", "objects");
        let verb = if number == 1 { "has" } else { "have" };
        writeln!(
            out,
            "{objects} {verb} answers of {strategy} that were {}: name the store with --store {}",
            look.bad("not compared"),
            shown(store.as_ref())
        )?;
    }
    Ok(())
}

/// Returns the text on one answer; `None` if there is nothing to report.
fn words(look: Look, checked: &Checked) -> Option<String> {
    let strategy = checked.strategy;
    let needed = shown(checked.needed.as_ref());
    let what = match &checked.verdict {
        Verdict::True => return None,
        Verdict::Skips { says: dir } => {
            format!("{} (skips {}, which may change)", look.faint("true"), shown(dir.as_ref()))
        }
        Verdict::Stale { says, is } => {
            let path = |path: &Option<BString>| {
                path.as_ref().map_or("nothing".to_owned(), |path| shown(path.as_ref()).to_string())
            };
            format!("{}: leads to {}, the search to {}", look.bad("stale"), path(says), path(is))
        }
        Verdict::Missing { is } => {
            format!("{}: the search leads to {}", look.bad("missing"), shown(is.as_ref()))
        }
        Verdict::Superfluous => format!("{}: it does not need it", look.faint("superfluous")),
        Verdict::Malformed { says: error } => format!("{}: {error}", look.bad("malformed")),
    };
    Some(match needed.is_empty() {
        true => format!("{strategy}: {what}"),
        false => format!("{strategy}: {needed}: {what}"),
    })
}

fn write_loads(out: &mut impl Write, look: Look, loads: &Loads) -> io::Result<()> {
    let path = shown(loads.path.as_ref());
    if loads.equal {
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
