//! Text output of `becalm verify`, a line a finding.

use std::collections::BTreeMap;
use std::io::{self, Write};

use becalm_core::strategy::{Checked, Strategy, Verdict};
use becalm_lib::escape::shown;
use becalm_lib::verify::index::{Damaged, Difference, DifferenceKind, StartedSlots, Verified};
use becalm_lib::verify::{Loads, Report};
use becalm_lib::words::{counted, grouped};
use bstr::BString;

use crate::terminal::style::Look;

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
        write_index(out, look, verified)?;
    }
    for damaged in &report.damaged {
        write_damaged(out, look, damaged)?;
    }
    write_unjudged(out, look, report)?;
    let looked_at = counted(report.looked_at as u64, "object", "objects");
    if answers == 0 {
        let has_index = !report.indexes.is_empty() || !report.damaged.is_empty();
        let nothing = match (report.unjudged.is_empty(), report.looked_at, has_index) {
            (false, ..) => format!("nothing else to compare ({looked_at} looked at)"),
            (_, 0, true) => return Ok(()),
            (_, 0, false) => "nothing was compared".to_owned(),
            (_, _, true) => format!("{looked_at} looked at: no strategy to compare"),
            (_, _, false) => {
                format!("nothing to compare: no strategy and no index here ({looked_at} looked at)")
            }
        };
        return writeln!(out, "{nothing}");
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
    for unjudged in &report.unjudged {
        *stores.entry((&unjudged.store, unjudged.strategy)).or_default() += 1;
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

/// Writes a line a difference, then the verdict.
fn write_index(out: &mut impl Write, look: Look, verified: &Verified) -> io::Result<()> {
    for difference in &verified.differences {
        let path = shown(difference.path.as_ref());
        let path = if path.is_empty() { "the loader cache".to_owned() } else { path };
        writeln!(out, "{}  {path}: {}", look.bad("differs"), difference_in_words(difference))?;
    }
    let name = look.strong(&shown(verified.path.as_ref()));
    let objects = counted(verified.objects as u64, "object", "objects");
    let answers = counted(verified.edges as u64, "answer", "answers");
    let verdict = match verified.differences.len() as u64 {
        0 => look.good("as the search would answer"),
        number => look.bad(&counted(number, "difference", "differences")),
    };
    writeln!(out, "{name}: {objects}, {answers}: {verdict}")?;
    if let Some(StartedSlots { programs, slots }) = verified.slots {
        let programs = counted(programs as u64, "program", "programs");
        let slots = counted(slots as u64, "slot", "slots");
        writeln!(out, "  {programs} started with and without bindings: {slots} compared")?;
    }
    if verified.stores_changed {
        writeln!(
            out,
            "  packages may have been added or removed since; becalm index --update reads them"
        )?;
    }
    Ok(())
}

/// Writes one line about a damaged or missing index.
fn write_damaged(out: &mut impl Write, look: Look, damaged: &Damaged) -> io::Result<()> {
    let Damaged { path, program, reason } = damaged;
    let program = program.as_ref();
    let by = program.map_or_else(String::new, |by| format!(", of {}", shown(by.as_ref())));
    let name = look.strong(&shown(path.as_ref()));
    writeln!(out, "{name}: index{by}, {}: {reason}", look.bad("damaged"))
}

fn difference_in_words(difference: &Difference) -> String {
    let text = |value: &Option<BString>| {
        value.as_ref().map_or_else(String::new, |value| shown(value.as_ref()))
    };
    let (needed, was) = (text(&difference.needed), text(&difference.was));
    match difference.kind {
        DifferenceKind::Gone => "does not exist, or has no lookups any more".to_owned(),
        DifferenceKind::RunPath => "has another run path".to_owned(),
        DifferenceKind::Answer => match &difference.now {
            Some(now) => format!("{needed}: was {was}, now {}", shown(now.as_ref())),
            None => format!("{needed}: was {was}, now left to the loader"),
        },
        DifferenceKind::Conditions => format!("{needed}: the answer holds under other conditions"),
        DifferenceKind::StaticTls => {
            let now = text(&difference.now);
            format!("needs glibc.rtld.optional_static_tls={now} (0: the default), was {was}")
        }
        DifferenceKind::LoadOrder => {
            "its start loads other objects, or in another order".to_owned()
        }
        DifferenceKind::Bindings => {
            "its symbols bind differently, or it is no longer bound".to_owned()
        }
        DifferenceKind::NotApplied => {
            format!("the module left its bindings to the loader: {}", text(&difference.now))
        }
        DifferenceKind::Slot => format!("{was}, with bindings {}", text(&difference.now)),
        DifferenceKind::Names => "a DT_RPATH names it, and it now answers other names".to_owned(),
        DifferenceKind::Paths => {
            "unchanged, with other paths below it: it was changed in place".to_owned()
        }
        DifferenceKind::Changed => "changed; answers that depend on it are searched".to_owned(),
    }
}
