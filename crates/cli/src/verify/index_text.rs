//! Text output of `becalm verify` for indexes: one line a difference.

use std::io::{self, Write};

use becalm_lib::escape::shown;
use becalm_lib::verify::index::{Damaged, Difference, DifferenceKind, StartedSlots, Verified};
use becalm_lib::words::counted;
use bstr::BString;

use crate::terminal::style::Look;

/// Writes a line a difference, then the verdict.
///
/// # Errors
/// Returns an error if the output cannot be written.
pub(crate) fn text(out: &mut impl Write, look: Look, verified: &Verified) -> io::Result<()> {
    for difference in &verified.differences {
        let path = shown(difference.path.as_ref());
        let path = if path.is_empty() { "the loader cache".to_owned() } else { path };
        writeln!(out, "{}  {path}: {}", look.bad("differs"), words(difference))?;
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
///
/// # Errors
/// Returns an error if the output cannot be written.
pub(crate) fn damaged(out: &mut impl Write, look: Look, damaged: &Damaged) -> io::Result<()> {
    let Damaged { path, program, reason } = damaged;
    let program = program.as_ref();
    let by = program.map_or_else(String::new, |by| format!(", of {}", shown(by.as_ref())));
    let name = look.strong(&shown(path.as_ref()));
    writeln!(out, "{name}: index{by}, {}: {reason}", look.bad("damaged"))
}

fn words(difference: &Difference) -> String {
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
