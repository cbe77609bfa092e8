//! One screen: the program, the loader's share, its search and the worst offenders, the program's
//! own misses, and the cost of tracing.

use std::fmt::Write;

use becalm_host::trace::{Exit, Share};
use becalm_lib::escape::shown;
use becalm_lib::relocations::Relocations;
use becalm_lib::trace::report::{Report, Seen, words_of_pages};
use becalm_lib::words::{counted, milliseconds};

use crate::beside;
use crate::check::text::{WORST, bindings_of, charged, heading, offenders};
use crate::terminal::style::Look;
use crate::trace::{classes, histogram};

/// Lines of a screen, without the shell's prompt.
const LINES: usize = 30;
/// Rows of the tables of directories, needed strings, objects, classes and of each table of
/// `dlopen`, from many, if there is room, to the fewest.
const ROWS: [[usize; 5]; 7] = [
    [WORST; 5],
    [5, 5, 3, 3, 3],
    [5, 4, 3, 3, 2],
    [5, 3, 2, 2, 2],
    [3, 3, 2, 2, 2],
    [2, 2, 2, 1, 1],
    [1; 5],
];
/// Images before the last one that are listed.
const IMAGES: usize = 6;
/// Differences that are listed.
const DIFFERENCES: usize = 20;

/// Returns the report as text.
pub(crate) fn of(look: Look, report: &Report, predict: bool) -> String {
    let Some((seen, before)) = report.images.split_last() else { return String::new() };
    let mut text = String::new();
    // The tables get shorter until all fits on one screen.
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
        match &seen.prediction {
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
    let mut text = match report.first_line() {
        Some(line) => format!("{}\n", look.strong(&line.to_string())),
        None => String::new(),
    };
    head(&mut text, look, report, seen);
    images(&mut text, look, before);
    text.push('\n');
    shares(&mut text, look, report, seen);
    prediction(&mut text, look, seen);
    missing(&mut text, look, seen);
    for note in &report.notes {
        let _ = writeln!(text, "  {} {}", look.bad("note"), look.fitted(note, 7));
    }
    charged(&mut text, look, "worst directories", &seen.worst.directories, directories);
    charged(&mut text, look, "worst needed strings", &seen.worst.needed, needed);
    if seen.checked.is_some() {
        charged(&mut text, look, "worst objects", &seen.worst.objects, objects);
    }
    text.push_str(&classes::table(look, seen, kinds));
    text.push_str(&classes::repeated(look, seen, kinds));
    opened_at_run_time(&mut text, look, seen, at_run_time);
    text
}

/// The causes of the misses of `dlopen`.
fn opened_at_run_time(text: &mut String, look: Look, seen: &Seen, rows: usize) {
    let dlopen = &seen.dlopen;
    charged(text, look, "dlopen: worst directories", &dlopen.directories, rows);
    let needed = dlopen.needed.iter().map(|needed| {
        let note: &[u8] = if needed.found { b"" } else { b" (not found)" };
        ([needed.misses.name.as_slice(), note].concat().into(), needed.misses.misses())
    });
    offenders(text, look, "dlopen: worst needed strings", needed, rows);
    let objects = dlopen.objects.iter().map(|object| match object.name.is_empty() {
        true => ("(the call of dlopen)".into(), object.misses()),
        false => (object.name.clone(), object.misses()),
    });
    offenders(text, look, "dlopen: worst objects", objects, rows);
}

fn head(text: &mut String, look: Look, report: &Report, seen: &Seen) {
    match &seen.checked {
        Some(program) => text.push_str(&heading(look, program)),
        None => {
            let _ = writeln!(text, "{}", look.strong(&shown(seen.path.as_ref())));
        }
    }
    let script = if seen.exec_path != seen.file && seen.exec_path != seen.path {
        format!("run for {}; ", shown(seen.exec_path.as_ref()))
    } else {
        String::new()
    };
    let end = match report.exit {
        Some(Exit::Code(code)) => format!("exit code {code}"),
        Some(Exit::Signal(signal)) => format!("ended by signal {signal}"),
        _ => "goes on untraced".to_owned(),
    };
    let entry = if seen.reached_entry { "" } else { "; the entry point was not reached" };
    let _ = writeln!(text, "  {script}process {}, {end}{entry}", seen.pid);
}

/// Returns the time of a share. If every call stops, the whole measured time may be the tracer's.
fn time_of(share: &Share) -> String {
    match share.net_ns {
        0 if share.tracer_ns > 0 => "not measurable beside the tracer".to_owned(),
        ns => format!("{} ms", milliseconds(ns)),
    }
}

/// Writes the images before the program: wrappers, and with --follow other processes.
fn images(text: &mut String, look: Look, before: &[Seen]) {
    for seen in before.iter().take(IMAGES) {
        let misses = |number| counted(number, "miss", "misses");
        let mut numbers =
            format!("program {}, {}", time_of(&seen.program), misses(seen.program.missed.total()));
        // A forked process keeps the loaded objects.
        if !seen.forked {
            let (loader, missed) = (time_of(&seen.loader), misses(seen.storm.misses()));
            numbers = format!("loader {loader}, {missed}; {numbers}");
        }
        let waited = waited(seen).map(|waited| format!("; {waited}")).unwrap_or_default();
        let numbers = numbers + &waited;
        let what = if seen.forked { " (fork)" } else { "" };
        let path = look.fitted(&shown(seen.path.as_ref()), numbers.len() + 24);
        let _ = writeln!(text, "  {} {path}{what} [{}]: {numbers}", look.faint("also"), seen.pid);
    }
    if before.len() > IMAGES {
        let _ = writeln!(text, "  and {} more images; --json has all", before.len() - IMAGES);
    }
}

fn shares(text: &mut String, look: Look, report: &Report, seen: &Seen) {
    let (storm, loader) = (&seen.storm, seen.loader.net_ns);
    let timed = report.overhead.is_some();
    if timed {
        let all = loader + seen.program.net_ns;
        let of_run = match report.exit {
            None => String::new(),
            Some(_) => format!(", {} of {} ms", percent(loader, all), milliseconds(all)),
        };
        let calls = calls(&seen.loader, report.all_syscalls);
        let time = look.strong(&format!("{} ms", milliseconds(loader)));
        let objects = match storm.objects {
            0 => String::new(),
            number => format!("; {}", counted(number, "object", "objects")),
        };
        let _ = writeln!(text, "  loader   {time}{of_run}; {calls}{objects}");
    }
    let opens = counted(storm.missed_opens, "failed open", "failed opens");
    let stats = counted(storm.missed_stats, "failed stat", "failed stats");
    let (misses, cost) = match storm.misses() {
        0 => (look.good("no misses"), String::new()),
        misses => {
            let (ms, share) = (milliseconds(seen.storm_ns), percent(seen.storm_ns, loader));
            let cost = format!("; {ms} ms, {share} of the loader's time");
            let misses = look.costly(&counted(misses, "miss", "misses"));
            (misses, if timed { cost } else { String::new() })
        }
    };
    let stats = if report.opens_alone { String::new() } else { format!(", {stats}") };
    let _ = writeln!(text, "  storm    {misses}: {opens}{stats}{cost}");
    if let Some(relocations) = &seen.relocations {
        text.push_str(&symbols(relocations));
    }
    if let Some(waited) = waited(seen) {
        let _ = writeln!(text, "  pages    {}", look.costly(&waited));
    }
    if timed {
        own(text, report, seen);
        cost_of_tracing(text, look, report, seen);
    }
}

/// The waits for pages of an image, if there are any.
fn waited(seen: &Seen) -> Option<String> {
    words_of_pages(seen.pages.as_ref()?)
}

/// The relocation of the start.
fn symbols(relocations: &Relocations) -> String {
    let Relocations { loader_ns, ns, lookups, .. } = relocations;
    let lookups = counted(*lookups, "lookup", "lookups");
    let time = ns.map(|ns| {
        let (time, share) = (milliseconds(ns), percent(ns, *loader_ns));
        format!("{time} ms of relocation, {share} of the time to the entry point; ")
    });
    format!("  symbols  {}{lookups}\n", time.unwrap_or_default())
}

/// The program's own share.
fn own(text: &mut String, report: &Report, seen: &Seen) {
    if report.exit.is_none() && seen.program.syscalls.is_empty() {
        return;
    }
    let missed = seen.program.missed;
    let time = milliseconds(seen.program.net_ns);
    let calls = calls(&seen.program, report.all_syscalls);
    let misses = counted(missed.total(), "miss", "misses");
    let _ = write!(text, "  program  {time} ms; {calls}; {misses}, {} ms", milliseconds(missed.ns));
    if seen.initialisers > 0 {
        let before = counted(seen.initialisers, "lookup", "lookups");
        let _ = write!(text, "; {before} by initialisers before it");
    }
    text.push('\n');
}

fn calls(share: &Share, all: bool) -> String {
    let calls = share.calls;
    if all { counted(calls, "call", "calls") } else { counted(calls, "lookup", "lookups") }
}

/// The tracer's cost, which was subtracted.
fn cost_of_tracing(text: &mut String, look: Look, report: &Report, seen: &Seen) {
    let Some(overhead) = report.overhead else { return };
    let share = |pick: fn(&Share) -> u64| pick(&seen.loader) + pick(&seen.program);
    let wall = milliseconds(share(|share| share.wall_ns));
    let tracer = milliseconds(share(|share| share.tracer_ns));
    let each = overhead.cycle_ns as f64 / 1000.0;
    let line = format!(
        "tracer   {tracer} ms of the {wall} ms measured, subtracted above ({each:.1} µs a watched call)"
    );
    let _ = writeln!(text, "  {}", look.faint(&line));
}

/// Writes the reason why the loader gave up, if it did.
fn missing(text: &mut String, look: Look, seen: &Seen) {
    let (false, Some(program)) = (seen.reached_entry, &seen.checked) else { return };
    if let Some(gap) = program.unresolved.first() {
        let needed = shown(gap.needed.as_ref());
        let asking = look.fitted(&shown(gap.needed_by.as_ref()), 34 + needed.len());
        let _ = writeln!(text, "  {}  {needed} not found, needed by {asking}", look.bad("missing"));
    }
}

fn prediction(text: &mut String, look: Look, seen: &Seen) {
    if let Some(bindings) = seen.indexed_bindings {
        let _ = writeln!(text, "  {}", bindings_of(&bindings));
    }
    match (&seen.prediction, &seen.no_prediction) {
        (Some(both), _) => {
            let more = if both.equal { "" } else { "; --predict lists them" };
            let with = if seen.calmed_by.is_some() { ", the index's answers included" } else { "" };
            let _ = writeln!(text, "  model    {}{with}{more}", beside::verdict(look, both));
        }
        (None, Some(why)) => {
            let _ = writeln!(text, "  model    no prediction: {}", look.fitted(why, 26));
        }
        (None, None) => text.push_str("  model    more lookups than are kept: not compared\n"),
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
    fn a_share_of_nothing_is_nothing() {
        assert_eq!(percent(5, 0), "0%");
        assert_eq!(percent(1, 3), "33%");
    }
}
