//! One screen: what ran, the loader's share, the storm and its worst offenders, what
//! the program missed by itself, and what the watching cost.

use std::fmt::Write;

use becalm_core::cost::Misses;
use becalm_core::observe::Dlopens;
use becalm_host::trace::{Exit, Image, Share};
use becalm_lib::escape::shown;
use becalm_lib::trace::report::{Report, Seen};
use becalm_lib::words::counted;
use bstr::BString;

use crate::beside;
use crate::check::text::{WORST, bindings_of, heading, offenders};
use crate::terminal::style::Look;
use crate::trace::time::milliseconds;
use crate::trace::{classes, histogram};

/// Lines of a screen, the shell's prompt left out.
const LINES: usize = 30;
/// Rows of the tables of directories, needed strings, objects, classes and each of what was
/// opened at run time, from what is shown where there is room to the least.
const ROWS: [[usize; 5]; 7] = [
    [WORST; 5],
    [5, 5, 3, 3, 3],
    [5, 4, 3, 3, 2],
    [5, 3, 2, 2, 2],
    [3, 3, 2, 2, 2],
    [2, 2, 2, 1, 1],
    [1; 5],
];
/// Images before the last that are named.
const IMAGES: usize = 6;
/// Differences that are listed.
const DIFFERENCES: usize = 20;

/// The report for a reader.
#[must_use]
pub(crate) fn of(look: Look, report: &Report, predict: bool) -> String {
    let Some((seen, before)) = report.images.split_last() else { return String::new() };
    let mut text = String::new();
    // The tables give way, so that all is on one screen.
    for rows in ROWS {
        text = screen(look, report, seen, before, rows);
        if text.lines().count() <= LINES {
            break;
        }
    }
    if report.all_syscalls {
        text.push_str(&histogram::table(look, seen));
    }
    if predict {
        match &seen.beside {
            Some(both) => {
                text.push('\n');
                text.push_str(&beside::table(look, both, DIFFERENCES));
            }
            None => text.push_str("\n  no prediction to show beside it\n"),
        }
    }
    text
}

fn screen(look: Look, report: &Report, seen: &Seen, before: &[Seen], rows: [usize; 5]) -> String {
    let [directories, needed, objects, kinds, at_run_time] = rows;
    let mut text = String::new();
    head(&mut text, look, report, seen);
    images(&mut text, look, before);
    text.push('\n');
    shares(&mut text, look, report, seen);
    prediction(&mut text, look, seen);
    missing(&mut text, look, seen);
    for note in &report.notes {
        let _ = writeln!(text, "  {} {}", look.bad("note"), look.fitted(note, 7));
    }
    offenders(&mut text, look, "worst directories", &seen.worst.directories, directories);
    offenders(&mut text, look, "worst needed strings", &seen.worst.needed, needed);
    if seen.program.is_ok() {
        offenders(&mut text, look, "worst objects", &seen.worst.objects, objects);
    }
    text.push_str(&classes::table(look, &seen.image, kinds));
    text.push_str(&classes::repeated(look, &seen.image, kinds));
    opened_at_run_time(&mut text, look, seen, at_run_time);
    text
}

/// Writes the directories and needed strings that cause the misses of `dlopen`.
fn opened_at_run_time(text: &mut String, look: Look, seen: &Seen, rows: usize) {
    let Dlopens { worst, not_found, .. } = &seen.dlopens;
    offenders(text, look, "dlopen: worst directories", &worst.directories, rows);
    let missing = |(name, misses): &(BString, Misses)| {
        let note: &[u8] = if not_found.contains(name) { b" (not found)" } else { b"" };
        ([name.as_slice(), note].concat().into(), *misses)
    };
    let needed: Vec<(BString, Misses)> = worst.needed.iter().map(missing).collect();
    offenders(text, look, "dlopen: worst needed strings", &needed, rows);
    let of_call = |(name, misses): &(BString, Misses)| match name.is_empty() {
        true => ("(the call of dlopen)".into(), *misses),
        false => (name.clone(), *misses),
    };
    let objects: Vec<(BString, Misses)> = worst.objects.iter().map(of_call).collect();
    offenders(text, look, "dlopen: worst objects", &objects, rows);
}

fn head(text: &mut String, look: Look, report: &Report, seen: &Seen) {
    match &seen.program {
        Ok(program) => text.push_str(&heading(look, program)),
        Err(_) => {
            let _ = writeln!(text, "{}", look.strong(&shown(seen.path.as_ref())));
        }
    }
    let image = &seen.image;
    let script = if image.exec_path != image.path && image.exec_path != seen.path {
        format!("run for {}; ", shown(image.exec_path.as_ref()))
    } else {
        String::new()
    };
    let end = match report.exit {
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(signal) => format!("ended by signal {signal}"),
        Exit::Running => "goes on untraced".to_owned(),
    };
    let entry = if image.reached_entry { "" } else { "; the entry point was not reached" };
    let _ = writeln!(text, "  {script}process {}, {end}{entry}", image.pid);
}

/// Writes the images before the program: wrappers, and with --follow other processes.
fn images(text: &mut String, look: Look, before: &[Seen]) {
    for seen in before.iter().take(IMAGES) {
        let image = &seen.image;
        let numbers = format!(
            "loader {} ms, {}; program {} ms, {}",
            milliseconds(image.loader.net_ns()),
            counted(seen.storm.misses(), "miss", "misses"),
            milliseconds(image.program.net_ns()),
            counted(image.program.missed.total(), "miss", "misses"),
        );
        let what = if image.forked { " (fork)" } else { "" };
        let path = look.fitted(&shown(seen.path.as_ref()), numbers.len() + 24);
        let _ = writeln!(text, "  {} {path}{what} [{}]: {numbers}", look.faint("also"), image.pid);
    }
    if before.len() > IMAGES {
        let _ = writeln!(text, "  and {} more images; --json has all", before.len() - IMAGES);
    }
}

fn shares(text: &mut String, look: Look, report: &Report, seen: &Seen) {
    let image = &seen.image;
    let storm = &seen.storm;
    let (loader, program) = (image.loader.net_ns(), image.program.net_ns());
    let timed = report.overhead.is_some();
    if timed {
        let of_run = match report.exit {
            Exit::Running => String::new(),
            _ => format!(
                ", {} of {} ms",
                percent(loader, loader + program),
                milliseconds(loader + program)
            ),
        };
        let calls = calls(&image.loader, report.all_syscalls);
        let time = format!("{} ms", milliseconds(loader));
        let objects = match storm.objects {
            0 => String::new(),
            number => format!("; {}", counted(number, "object", "objects")),
        };
        let _ = writeln!(text, "  loader   {}{of_run}; {calls}{objects}", look.strong(&time));
    }
    let opens = counted(storm.missed_opens, "failed open", "failed opens");
    let stats = counted(storm.missed_stats, "failed stat", "failed stats");
    let misses = counted(storm.misses(), "miss", "misses");
    let misses = if storm.misses() == 0 { look.good("no misses") } else { look.costly(&misses) };
    let cost = if timed && storm.misses() > 0 {
        let ns = seen.storm_ns;
        format!("; {} ms, {} of the loader's time", milliseconds(ns), percent(ns, loader))
    } else {
        String::new()
    };
    let stats = if report.opens_alone { String::new() } else { format!(", {stats}") };
    let _ = writeln!(text, "  storm    {misses}: {opens}{stats}{cost}");
    if timed {
        own(text, report, image);
        cost_of_tracing(text, look, report, image);
    }
}

/// The program's own share.
fn own(text: &mut String, report: &Report, image: &Image) {
    if report.exit == Exit::Running && image.program.histogram.is_empty() {
        return;
    }
    let missed = image.program.missed;
    let time = milliseconds(image.program.net_ns());
    let calls = calls(&image.program, report.all_syscalls);
    let misses = counted(missed.total(), "miss", "misses");
    let _ = write!(text, "  program  {time} ms; {calls}; {misses}, {} ms", milliseconds(missed.ns));
    if image.initialisers > 0 {
        let before = counted(image.initialisers, "lookup", "lookups");
        let _ = write!(text, "; {before} by initialisers before it");
    }
    text.push('\n');
}

fn calls(share: &Share, all: bool) -> String {
    let calls = histogram::calls(share);
    if all { counted(calls, "call", "calls") } else { counted(calls, "lookup", "lookups") }
}

/// Writes the cost of the tracer, which the figures above exclude.
fn cost_of_tracing(text: &mut String, look: Look, report: &Report, image: &Image) {
    let Some(overhead) = report.overhead else { return };
    let share = |pick: fn(&Share) -> u64| pick(&image.loader) + pick(&image.program);
    let wall = milliseconds(share(|share| share.wall_ns));
    let tracer = milliseconds(share(|share| share.tracer_ns));
    let each = overhead.cycle_ns as f64 / 1000.0;
    let line = format!(
        "tracer   {tracer} ms of the {wall} ms measured, subtracted above ({each:.1} µs a watched call)"
    );
    let _ = writeln!(text, "  {}", look.faint(&line));
}

/// Why the loader gave up, where it did.
fn missing(text: &mut String, look: Look, seen: &Seen) {
    let (false, Ok(program)) = (seen.image.reached_entry, &seen.program) else { return };
    if let Some(gap) = program.unresolved.first() {
        let needed = shown(gap.needed.as_ref());
        let asking = look.fitted(&shown(gap.needed_by.as_ref()), 34 + needed.len());
        let _ = writeln!(text, "  {}  {needed} not found, needed by {asking}", look.bad("missing"));
    }
}

fn prediction(text: &mut String, look: Look, seen: &Seen) {
    if let Some(bindings) = seen.program.as_ref().ok().and_then(|program| program.bindings) {
        let _ = writeln!(text, "  {}", bindings_of(&bindings));
    }
    match (&seen.beside, &seen.program) {
        (Some(both), _) => {
            let more = if both.equal { "" } else { "; --predict lists them" };
            let calmed = seen.program.as_ref().is_ok_and(|program| program.calmed_by.is_some());
            let with = if calmed { ", the index's answers included" } else { "" };
            let _ = writeln!(text, "  model    {}{with}{more}", beside::verdict(look, both));
        }
        (None, Err(why)) => {
            let _ = writeln!(text, "  model    no prediction: {}", look.fitted(why, 26));
        }
        (None, Ok(_)) => text.push_str("  model    more lookups than are kept: not compared\n"),
    }
}

fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "0%".to_owned();
    }
    format!("{:.0}%", 100.0 * part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_times_keep_their_digits() {
        let texts = [0, 1_234, 12_345_678, 1_234_567_890].map(milliseconds);
        assert_eq!(texts, ["0", "0.001", "12.3", "1,234"]);
    }

    #[test]
    fn a_share_of_nothing_is_nothing() {
        assert_eq!(percent(5, 0), "0%");
        assert_eq!(percent(1, 3), "33%");
    }
}
