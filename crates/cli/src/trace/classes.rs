//! Classes of the searches after the entry point.

use std::fmt::Write;

use becalm_core::observe::tally::ClassLookups;
use becalm_lib::escape::shown;
use becalm_lib::trace::report::Seen;
use becalm_lib::words::{counted, grouped, milliseconds};

use crate::check::text::padded_bar;
use crate::terminal::style::Look;

/// Returns the classes with misses, the worst first, with the directory that misses most.
pub(crate) fn table(look: Look, seen: &Seen, rows: usize) -> String {
    let missing = seen.classes.iter().filter(|tally| tally.missed.total() > 0);
    let row = |tally: &ClassLookups| {
        let dirs = tally.dirs.len() as u64;
        let place = match tally.dirs.first() {
            Some(dir) if dir.path.is_empty() => "; most as bare names".to_owned(),
            Some(dir) if dirs == 1 => format!("; in {}", shown(dir.path.as_ref())),
            Some(dir) => format!(
                "; in {}, most in {}",
                counted(dirs, "directory", "directories"),
                shown(dir.path.as_ref())
            ),
            None => String::new(),
        };
        (tally.class.title(), tally.missed.total(), tally.missed.ns, place)
    };
    list(look, "misses after the entry point", missing.take(rows).map(row))
}

/// Repeated successful lookups are shown from this number on: a few are normal.
const MANY: u64 = 100;

/// Returns the classes with repeated successful lookups, the worst first, with the most frequent
/// path.
pub(crate) fn repeated(look: Look, seen: &Seen, rows: usize) -> String {
    let mut asking: Vec<&ClassLookups> =
        seen.classes.iter().filter(|tally| tally.repeated.count >= MANY).collect();
    asking.sort_by_key(|tally| std::cmp::Reverse(tally.repeated.count));
    let row = |tally: &ClassLookups| {
        let repeated = &tally.repeated;
        let paths = repeated.paths.len() as u64;
        let place = repeated.paths.first().map_or_else(String::new, |most| {
            format!("; {}, most {}", counted(paths, "path", "paths"), shown(most.path.as_ref()))
        });
        (tally.class.title(), repeated.count, repeated.ns, place)
    };
    list(look, "repeated successful lookups", asking.into_iter().take(rows).map(row))
}

/// Returns a title, and a line for each class: its name, count and time, and where most are.
fn list(
    look: Look,
    title: &str,
    rows: impl Iterator<Item = (&'static str, u64, u64, String)>,
) -> String {
    let mut text = String::new();
    let mut rows = rows.peekable();
    let Some(&(_, most, ..)) = rows.peek() else { return text };
    let _ = writeln!(text, "\n  {}", look.strong(title));
    for (class, count, ns, place) in rows {
        let bar = padded_bar(look, count, most);
        let head = format!("{class}, {} ms", milliseconds(ns));
        let tail = look.fitted(&place, 24 + head.chars().count());
        let _ = writeln!(text, "  {:>6}  {bar}  {head}{tail}", grouped(count));
    }
    text
}
