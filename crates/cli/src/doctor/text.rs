//! The state of a session on one screen.

use std::fmt::Write;
use std::time::{Duration, UNIX_EPOCH};

use becalm_lib::doctor::{
    Alone, IndexState, LeftOut, LoaderState, ModuleKind, ProgramState, Report,
};
use becalm_lib::escape::shown;
use becalm_lib::path::path_bytes;
use becalm_lib::trees::counts::Counts;
use becalm_lib::trees::state::TreesState;
use becalm_lib::words::{counted, grouped};
use bstr::ByteSlice;

use crate::terminal::style::Look;

/// The number of skipped programs, and of stores, that are listed.
const NAMED: usize = 5;
/// Columns before the text of a row.
const INDENT: usize = 12;

/// The screen.
pub(crate) fn screen(look: Look, report: &Report) -> String {
    let mut text = String::new();
    if let Some(program) = &report.program {
        of_program(&mut text, look, report, program);
    }
    session(&mut text, look, report);
    if let Some(index) = &report.index {
        of_index(&mut text, look, index);
    }
    left_out(&mut text, look, report);
    if let Some(loader) = &report.loader {
        row(&mut text, look, "loader", &of_loader(loader));
    }
    kept(&mut text, look, report);
    if report.alone.switched_on > 0 {
        row(&mut text, look, "becalm on", &switched_on(report.alone));
    }
    recorded(&mut text, look, report);
    if let Some(trees) = &report.trees {
        looked_up(&mut text, look, "network", NAMED, trees);
    }
    findings(&mut text, look, report);
    text
}

/// A row: its title in the first columns.
fn row(text: &mut String, look: Look, title: &str, words: &str) {
    let title = format!("{title:<10}");
    let title = if title.trim().is_empty() { title } else { look.strong(&title) };
    let _ = writeln!(text, "{title}  {}", look.fitted(words, INDENT));
}

fn session(text: &mut String, look: Look, report: &Report) {
    let words = match report.calmed {
        true => look.good("uses an index"),
        false => look.bad("uses no index"),
    };
    let _ = writeln!(text, "{}  {words}", look.strong(&format!("{:<10}", "session")));
    for module in &report.modules {
        let what = match module.is {
            ModuleKind::Index => "an index",
            ModuleKind::BadIndex => "an index that is not used",
            ModuleKind::Other => "another audit module",
            ModuleKind::Missing => "not there",
        };
        row(text, look, "", &format!("LD_AUDIT: {} ({what})", shown(module.element.as_ref())));
    }
    if !report.switches.is_empty() {
        row(text, look, "", &format!("BECALM: {}", report.switches.join(", ")));
    }
    if let Some(bytes) = report.static_tls {
        row(text, look, "", &format!("static TLS for libraries: {} bytes", grouped(bytes)));
    }
}

fn of_index(text: &mut String, look: Look, index: &IndexState) {
    row(text, look, "index", &shown(index.path.as_ref()));
    if !index.usable {
        return;
    }
    let objects = counted(index.objects as u64, "object", "objects");
    let programs = counted(index.programs as u64, "program", "programs");
    let bound = grouped(index.bound_programs as u64);
    let machine = index.machine.unwrap_or("unknown");
    let bytes = grouped(index.bytes);
    let counts = format!("{machine}, {objects}, {programs} ({bound} with bindings), {bytes} bytes");
    row(text, look, "", &counts);
    let fresh = if index.fresh == Some(true) { "fresh" } else { "stale" };
    let more = match index.stores.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let stores = match index.stores.as_slice() {
        [] => "single programs".to_owned(),
        stores => stores.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", "),
    };
    row(text, look, "", &format!("{fresh}; of {stores}{more}"));
    if !index.stores.is_empty() {
        let words = "packages of a store are immutable: a file added inside one is not seen";
        row(text, look, "", words);
    }
}

fn left_out(text: &mut String, look: Look, report: &Report) {
    let of_index = report.index.iter().flat_map(|index| &index.left_out);
    let all: Vec<&LeftOut> = of_index.chain(&report.left_out).collect();
    list(text, look, "left out", NAMED, &all, |left| {
        let why = match (left.reason.as_str(), left.lookups) {
            ("static-tls-alignment", _) => "does not start under an audit module".to_owned(),
            ("static-tls", _) => "may need more static TLS than this session has".to_owned(),
            (reason, lookups) => {
                format!("{} to the loader ({reason})", counted(lookups as u64, "lookup", "lookups"))
            }
        };
        format!("{}: {why}", shown(left.path.as_ref()))
    });
}

fn of_loader(loader: &LoaderState) -> String {
    let LoaderState { takes_index, takes_bindings, reads_notes, reads_package_caches, .. } =
        *loader;
    let can = [
        (takes_index, "an index"),
        (takes_bindings, "bindings"),
        (reads_notes, "notes"),
        (reads_package_caches, "loader caches of packages"),
    ];
    let can: Vec<&str> = can.iter().filter(|(can, _)| *can).map(|(_, what)| *what).collect();
    let can = if can.is_empty() { "nothing but edited files".to_owned() } else { can.join(", ") };
    format!("{} ({}) takes {can}", shown(loader.path.as_ref()), loader.libc)
}

/// Writes the first line about the named program, and what it starts by.
fn of_program(text: &mut String, look: Look, report: &Report, program: &ProgramState) {
    let path = shown(program.path.as_ref());
    let _ = writeln!(text, "{}", look.strong(&program.first_line));
    row(text, look, "program", &path);
    let on = match program.switched_on {
        Some(true) => "switched on: it starts by its index",
        Some(false) => "switched on, and starts plainly: becalm on --update",
        None => "not switched on",
    };
    row(text, look, "", on);
    let named = shown(path_bytes(&program.named).as_ref());
    let offer = match (program.networked, program.gains) {
        (true, _) => {
            format!("on a network file system: becalm run -- {named} looks up its files ahead")
        }
        (false, true) => format!("no index of its own: becalm run -- {named} makes one"),
        (false, false) => return,
    };
    if report.kept.is_empty() {
        // Never shortened: it is to be typed.
        let _ = writeln!(text, "{:INDENT$}{offer}", "");
    }
}

/// Writes the indexes of single programs.
fn kept(text: &mut String, look: Look, report: &Report) {
    list(text, look, "becalm run", NAMED, &report.kept, |kept| {
        let (mib, age) = (mib(kept.bytes), age_in_words(kept.compared));
        let state = match kept.fresh {
            true => "fresh",
            false => "stale: becalm run makes it anew an hour after it was compared",
        };
        format!("{}: index of {mib}, {age}; {state}", shown(kept.program.as_ref()))
    });
}

/// Returns the number of programs that are switched on, and what to do about those that start plainly.
pub(crate) fn switched_on(alone: Alone) -> String {
    let programs = counted(alone.switched_on, "program", "programs");
    match alone.stale {
        0 => programs,
        stale => format!("{programs}, {} stale: becalm on --update", grouped(stale)),
    }
}

/// Writes the number of recorded commands, and the first ones.
fn recorded(text: &mut String, look: Look, report: &Report) {
    list(text, look, "read ahead", NAMED, &report.records, |record| {
        let (mib, learned) = (mib(record.bytes), learned_in_words(record.starts, record.learned));
        let state = match (record.usable, record.complete) {
            (false, _) => "not read: the file system does not say what is in memory",
            (true, false) => "the next start is recorded too",
            (true, true) => "complete",
        };
        format!("{}: {mib}, {learned}; {state}", shown(record.command.as_bytes().as_bstr()))
    });
}

/// Writes the size of the folder for network file systems, and at most so many commands.
pub(crate) fn looked_up(
    text: &mut String,
    look: Look,
    title: &str,
    most: usize,
    trees: &TreesState,
) {
    let copies = counted(trees.copies, "copy", "copies");
    let folder = shown(path_bytes(&trees.folder).as_ref());
    row(text, look, title, &format!("{folder}: {copies}, {}", mib(trees.bytes)));
    let Counts { starts, declined, ended, answers, stale } = trees.counts;
    if starts > 0 {
        let [starts, declined, ended, answers, stale] =
            [starts, declined, ended, answers, stale].map(grouped);
        let answered =
            format!("{answers} answers in {starts} starts; {declined} declined, {ended} ended");
        row(text, look, "answered", &format!("{answered} by a change; {stale} stale files"));
    }
    list(text, look, "", most, &trees.records, |record| {
        let paths = counted(record.paths.into(), "path", "paths");
        let copied = match (record.paths, record.copied) {
            (0, _) => "nothing is looked up ahead".to_owned(),
            (_, false) => "no copies: times of its files are not trusted".to_owned(),
            (_, true) => format!("{} from copies", grouped(record.copies.into())),
        };
        let command = shown(record.command.as_bytes().as_bstr());
        let learned = learned_in_words(record.starts, record.learned);
        format!("{command}: {paths}, {copied}; {learned}")
    });
}

/// Writes the first of some things, a row each, and how many are left.
fn list<T>(
    text: &mut String,
    look: Look,
    title: &str,
    most: usize,
    all: &[T],
    words: impl Fn(&T) -> String,
) {
    for (at, one) in all.iter().take(most).enumerate() {
        row(text, look, if at == 0 { title } else { "" }, &words(one));
    }
    if all.len() > most {
        let more = grouped((all.len() - most) as u64);
        row(text, look, "", &format!("and {more} more; --json names all"));
    }
}

/// Formats a number of bytes.
pub(crate) fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// Returns the number of starts of a record, and its age.
fn learned_in_words(starts: u32, learned: u64) -> String {
    match starts {
        0 => "no start learned".to_owned(),
        _ => format!("{}, {}", counted(starts.into(), "start", "starts"), age_in_words(learned)),
    }
}

/// Returns the age of a record, in the largest unit that it has one of.
fn age_in_words(learned: u64) -> String {
    let time = UNIX_EPOCH + Duration::from_secs(learned);
    let minutes = time.elapsed().unwrap_or_default().as_secs() / 60;
    match (minutes / (24 * 60), minutes / 60) {
        (0, 0) => counted(minutes, "minute", "minutes") + " old",
        (0, hours) => counted(hours, "hour", "hours") + " old",
        (days, _) => counted(days, "day", "days") + " old",
    }
}

fn findings(text: &mut String, look: Look, report: &Report) {
    if report.findings.is_empty() {
        row(text, look, "findings", "none");
        return;
    }
    for (at, finding) in report.findings.iter().enumerate() {
        let title = if at == 0 { "findings" } else { "" };
        row(text, look, title, &finding.what);
        row(text, look, "", &format!("→ {}", finding.remedy));
    }
}
