//! One program on one screen: its kind, the cost of its start, the directories and needed strings
//! with most misses, and missing libraries.

use std::fmt::Write;

use becalm_core::closure::Closure;
use becalm_core::cost::SearchCost;
use becalm_core::observe::offenders::{Offender, Offenders};
use becalm_lib::advice::{Choice, Scope};
use becalm_lib::check::{Gap, Kind, Program, Slice};
use becalm_lib::escape::shown;
use becalm_lib::first_line::FirstLine;
use becalm_lib::loaded_index::IndexedBindings;
use becalm_lib::words::{counted, grouped};
use bstr::BString;

use crate::check::view::View;
use crate::terminal::style::Look;

/// The number of directories, and of needed strings, that are listed.
pub(crate) const WORST: usize = 5;
/// The number of unresolved needed strings that are listed; a screen has 24 lines.
const GAPS: usize = 3;
/// The number of slices of a Mach-O file that are listed.
const SLICES: usize = 16;
/// Columns of the longest bar.
const BAR: u64 = 12;

/// One screen about one program.
pub(crate) struct Screen;

impl View for Screen {
    fn is_long(&self) -> bool {
        false
    }

    fn advises(&self) -> bool {
        true
    }

    fn between(&self) -> &'static str {
        "\n"
    }

    fn program(&self, look: Look, program: &mut Program, closure: Option<&Closure>) -> Vec<u8> {
        screen(look, program, closure)
    }
}

/// The whole screen.
pub(crate) fn screen(look: Look, program: &Program, closure: Option<&Closure>) -> Vec<u8> {
    let mut text = String::new();
    if matches!(program.kind, Kind::Program | Kind::Static) {
        text = format!("{}\n", look.strong(&FirstLine::of(program).to_string()));
    }
    text.push_str(&heading(look, program));
    match program.kind {
        Kind::Static => text.push_str("  no loader is involved: nothing is searched\n"),
        Kind::MachO => slices(&mut text, program.slices.as_deref().unwrap_or_default()),
        Kind::Program | Kind::Library => {
            costs(&mut text, look, program);
            if let Some(closure) = closure.filter(|_| program.storm.misses() > 0) {
                let worst = Offenders::of(closure);
                charged(&mut text, look, "worst directories", &worst.directories, WORST);
                charged(&mut text, look, "worst needed strings", &worst.needed, WORST);
            }
            unresolved(&mut text, look, program);
            advice(&mut text, look, program);
        }
    }
    text.into_bytes()
}

/// Returns the path, and a line that describes the file.
pub(crate) fn heading(look: Look, program: &Program) -> String {
    let mut text = String::new();
    let path = shown(program.path.as_ref());
    let _ = writeln!(text, "{}", look.strong(&path));
    let kind = match program.kind {
        Kind::Program => "program",
        Kind::Library => "library",
        Kind::Static => "static program",
        Kind::MachO => "Mach-O file",
    };
    let _ = write!(text, "  {} {kind}", program.machine);
    if let Some(libc) = program.libc {
        let _ = write!(text, ", {libc}");
    }
    if let Some(interpreter) = &program.interpreter {
        let by = if program.kind == Kind::Library { ", as loaded by " } else { ", started by " };
        let used = text.lines().last().map_or(0, |line| line.chars().count()) + by.len();
        let interpreter = look.fitted(&shown(interpreter.as_ref()), used);
        let _ = write!(text, "{by}{interpreter}");
    }
    text.push('\n');
    if let Some(script) = program.scripts.first() {
        row(&mut text, look, "started by the script", &shown(script.as_ref()));
    }
    if let Some(index) = &program.calmed_by {
        row(&mut text, look, "indexed by", &shown(index.as_ref()));
    }
    if let Some(indexed) = &program.indexed {
        let answers = indexed.answers.len() as u64;
        let lookups = counted(answers + indexed.unanswered.len() as u64, "lookup", "lookups");
        let _ = writeln!(text, "  answers {} of {lookups}", grouped(answers));
        if let Some(why) = &indexed.not_applied {
            row(&mut text, look, "no bindings:", &shown(why.as_str().into()));
        }
    }
    if let Some(bindings) = &program.bindings {
        let _ = writeln!(text, "  {}", bindings_of(bindings));
    }
    if program.secure {
        text.push_str("  starts in secure-execution mode: LD_LIBRARY_PATH has no effect\n");
    }
    text
}

/// Writes a label, and text that is cut to the rest of the line.
fn row(text: &mut String, look: Look, label: &str, value: &str) {
    let _ = writeln!(text, "  {label} {}", look.fitted(value, label.len() + 3));
}

/// Formats the symbol bindings that an index applies.
pub(crate) fn bindings_of(bindings: &IndexedBindings) -> String {
    let [bound, all] = [bindings.bound, bindings.relocations].map(|n| grouped(n.into()));
    format!("bindings {bound} of {all} from the index")
}

fn costs(text: &mut String, look: Look, program: &Program) {
    let storm = &program.storm;
    let searched = match storm.search_dirs {
        0 => "none searched".to_owned(),
        searched => format!("{} searched", counted(searched, "directory", "directories")),
    };
    if program.libraries == 0 {
        let _ = writeln!(text, "\n  no libraries; {searched}");
    } else {
        let libraries = counted(program.libraries as u64, "library", "libraries");
        let dirs = counted(program.library_dirs as u64, "directory", "directories");
        let _ = writeln!(text, "\n  {} in {dirs}; {searched}", look.strong(&libraries));
    }
    let hits = counted(storm.hits, "hit", "hits");
    if storm.misses() == 0 {
        let _ = writeln!(text, "  {}; {hits}", look.good("no misses"));
    } else {
        let misses = look.costly(&counted(storm.misses(), "miss", "misses"));
        let opens = counted(storm.missed_opens, "failed open", "failed opens");
        let stats = counted(storm.missed_stats, "failed stat", "failed stats");
        let _ = writeln!(text, "  {misses}: {opens}, {stats}; {hits}");
    }
    hwcaps(text, program);
    if let Some(stop) = &program.stop {
        let stop = look.fitted(stop, 34);
        let _ = writeln!(text, "  {} {stop}", look.bad("the loader would give up at"));
    }
}

/// Writes the number of misses in hwcaps subdirectories, and that of a newer glibc.
fn hwcaps(text: &mut String, program: &Program) {
    let storm = &program.storm;
    if storm.hwcaps_misses == 0 {
        return;
    }
    let of = grouped(storm.hwcaps_misses);
    let _ = write!(text, "  {of} of them ({}%) in hwcaps subdirectories", share(storm));
    if let Some(newer) = &program.newer_glibc {
        let left = counted(newer.storm.misses(), "miss", "misses");
        let _ = write!(text, "; {} and later: {left}", newer.libc);
    }
    text.push('\n');
}

/// Returns the misses in hwcaps subdirectories, in per cent of all; never 100 while there are
/// others.
pub(crate) fn share(storm: &SearchCost) -> u64 {
    let (part, all) = (u128::from(storm.hwcaps_misses), u128::from(storm.misses()).max(1));
    let rounded = (200 * part + all) / (2 * all);
    let most = if part < all { 99 } else { 100 };
    u64::try_from(rounded).unwrap_or(most).min(most)
}

/// Writes the commands that gain, with what each leaves.
fn advice(text: &mut String, look: Look, program: &Program) {
    let Some(advice) = &program.advice else { return };
    let left = |choice: &Choice| match choice.misses {
        Some(0) => "no miss".to_owned(),
        misses => counted(misses.unwrap_or(0), "miss", "misses"),
    };
    let mut lines = Vec::new();
    if let Some(choice) = advice.best(Scope::Nothing) {
        lines.push(format!("becalm run leaves {} and changes no file", left(choice)));
    }
    let of_files = [(Scope::Program, "in this file alone"), (Scope::Closure, "with its libraries")];
    let of_files = of_files.into_iter().filter_map(|(scope, place)| {
        let choice = advice.best(scope)?;
        Some(format!("{} {place} ({})", left(choice), choice.strategy))
    });
    let of_files: Vec<String> = of_files.collect();
    if !of_files.is_empty() {
        lines.push(format!("becalm fix leaves {}", of_files.join(", ")));
    }
    if let (false, Some(store)) = (lines.is_empty(), &advice.assumed_store) {
        let store = look.fitted(&shown(store.as_ref()), 48);
        lines.push(format!("both with --store {store}, if packages there never change"));
    }
    lines.extend(advice.not_proposed());
    for (at, line) in lines.iter().enumerate() {
        let title = if at == 0 { look.strong("advice") } else { " ".repeat("advice".len()) };
        let start = if at == 0 { "\n" } else { "" };
        let _ = writeln!(text, "{start}  {title}  {line}");
    }
}

/// Writes the first `rows` of a list of causes of misses.
pub(crate) fn charged(text: &mut String, look: Look, title: &str, worst: &[Offender], rows: usize) {
    let worst = worst.iter().map(|it| (it.name.clone(), it.misses()));
    offenders(text, look, title, worst, rows);
}

/// Writes the first `rows` of a list of offenders, each with its count and a bar.
pub(crate) fn offenders(
    text: &mut String,
    look: Look,
    title: &str,
    worst: impl Iterator<Item = (BString, u64)>,
    rows: usize,
) {
    let mut worst = worst.take(rows).peekable();
    let Some((_, most)) = worst.peek() else { return };
    let most = (*most).max(1);
    let width = grouped(most).len().max(6);
    let _ = writeln!(text, "\n  {}", look.strong(title));
    for (name, misses) in worst {
        let count = grouped(misses);
        let bar = padded_bar(look, misses, most);
        let used = width + BAR as usize + 6;
        // An empty search directory is the current one.
        let name =
            if name.is_empty() { "(current directory)".into() } else { shown(name.as_ref()) };
        let name = look.fitted(&name, used);
        let _ = writeln!(text, "  {count:>width$}  {bar}  {name}");
    }
}

/// Returns the bar of a count as wide as the longest.
pub(crate) fn padded_bar(look: Look, count: u64, most: u64) -> String {
    let bar = bar(count, most);
    let padding = BAR as usize - bar.chars().count();
    look.costly(&bar) + &" ".repeat(padding)
}

/// Returns a bar for a count, the longest for the highest; never empty.
fn bar(count: u64, most: u64) -> String {
    let columns = (u128::from(count) * u128::from(BAR)).div_ceil(u128::from(most.max(1)));
    "■".repeat(usize::try_from(columns).unwrap_or(1).clamp(1, BAR as usize))
}

fn unresolved(text: &mut String, look: Look, program: &Program) {
    let gaps = &program.unresolved;
    if gaps.is_empty() {
        return;
    }
    let title = format!("{} unresolved", grouped(gaps.len() as u64));
    let _ = writeln!(text, "\n  {}", look.bad(&title));
    // Each of these takes one line.
    let free = GAPS - usize::from(program.stop.is_some()) - usize::from(program.secure);
    let named = if gaps.len() > free { free - 1 } else { gaps.len() };
    for gap in &gaps[..named] {
        let _ = writeln!(text, "  {}", look.fitted(&gap_in_words(gap), 2));
    }
    if gaps.len() > named {
        let _ = writeln!(text, "  and {} more; --tree shows all", gaps.len() - named);
    }
}

fn gap_in_words(gap: &Gap) -> String {
    let needed = shown(gap.needed.as_ref());
    let why = gap.refusal.map_or(String::new(), |refusal| format!(" ({refusal})"));
    format!("{needed}{why}, needed by {}", shown(gap.needed_by.as_ref()))
}

/// Writes the paths that dyld tries for a Mach-O file's load commands.
pub(crate) fn slices(text: &mut String, slices: &[Slice]) {
    text.push('\n');
    for slice in slices.iter().take(SLICES) {
        let absolute = counted(slice.absolute as u64, "absolute", "absolute");
        let rpath = grouped(slice.rpath_dylibs as u64);
        let rpaths = counted(slice.rpaths as u64, "LC_RPATH", "LC_RPATHs");
        let dylibs = counted(slice.dylibs as u64, "dylib", "dylibs");
        let candidates = counted(slice.dyld_candidates as u64, "path", "paths");
        let _ = writeln!(
            text,
            "  {}: {dylibs}, {absolute}, {rpath} by @rpath over {rpaths}: dyld may try {candidates}",
            slice.cpu
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_hwcaps_is_rounded_and_is_all_of_them_only_where_it_is() {
        let share_of = |hwcaps_misses, missed_opens| {
            share(&SearchCost { hwcaps_misses, missed_opens, ..SearchCost::default() })
        };
        assert_eq!(share_of(0, 0), 0);
        assert_eq!(share_of(1, 3), 33);
        assert_eq!(share_of(2, 3), 67);
        assert_eq!(share_of(9_999, 10_000), 99);
        assert_eq!(share_of(7, 7), 100);
        assert_eq!(share_of(u64::MAX, u64::MAX), 100);
    }

    #[test]
    fn the_worst_has_the_longest_bar_and_the_least_has_one() {
        assert_eq!(bar(100, 100).chars().count(), 12);
        assert_eq!(bar(50, 100).chars().count(), 6);
        assert_eq!(bar(1, 100_000).chars().count(), 1);
        assert_eq!(bar(u64::MAX, u64::MAX).chars().count(), 12);
    }
}
