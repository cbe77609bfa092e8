//! Classes of the searches after the entry point.

use std::fmt::Write;

use becalm_lib::escape::shown;
use becalm_lib::trace::report::{ClassLookups, Seen};
use becalm_lib::words::{counted, grouped, milliseconds};

use crate::check::text::{BAR, bar};
use crate::terminal::style::Look;

/// Returns the classes with misses, the worst first, with the directory that misses most.
#[must_use]
pub(crate) fn table(look: Look, seen: &Seen, rows: usize) -> String {
    let mut text = String::new();
    let missing: Vec<&ClassLookups> =
        seen.classes.iter().filter(|tally| tally.missed.total() > 0).collect();
    let Some(worst) = missing.first() else { return text };
    let most = worst.missed.total();
    let _ = writeln!(text, "\n  {}", look.strong("misses after the entry point"));
    for tally in missing.iter().take(rows) {
        let misses = tally.missed.total();
        let bar = bar(misses, most);
        let padding = " ".repeat(BAR as usize - bar.chars().count());
        let head = format!("{}, {} ms", tally.class.title(), milliseconds(tally.missed.ns));
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
        let tail = look.fitted(&place, 24 + head.chars().count());
        let count = grouped(misses);
        let _ = writeln!(text, "  {count:>6}  {}{padding}  {head}{tail}", look.costly(&bar));
    }
    text
}

/// Repeated successful lookups are shown from this number on: a few are normal.
const MANY: u64 = 100;

/// Returns the classes with repeated successful lookups, the worst first, with the most frequent
/// path.
#[must_use]
pub(crate) fn repeated(look: Look, seen: &Seen, rows: usize) -> String {
    let mut text = String::new();
    let mut asking: Vec<&ClassLookups> =
        seen.classes.iter().filter(|tally| tally.repeated.count >= MANY).collect();
    asking.sort_by_key(|tally| std::cmp::Reverse(tally.repeated.count));
    let Some(worst) = asking.first() else { return text };
    let most = worst.repeated.count;
    let _ = writeln!(text, "\n  {}", look.strong("repeated successful lookups"));
    for tally in asking.iter().take(rows) {
        let repeated = &tally.repeated;
        let bar = bar(repeated.count, most);
        let padding = " ".repeat(BAR as usize - bar.chars().count());
        let head = format!("{}, {} ms", tally.class.title(), milliseconds(repeated.ns));
        let paths = repeated.paths.len() as u64;
        let place = repeated.paths.first().map_or_else(String::new, |most| {
            format!("; {}, most {}", counted(paths, "path", "paths"), shown(most.path.as_ref()))
        });
        let tail = look.fitted(&place, 24 + head.chars().count());
        let count = grouped(repeated.count);
        let _ = writeln!(text, "  {count:>6}  {}{padding}  {head}{tail}", look.costly(&bar));
    }
    text
}
