//! Classes of the searches after the entry point.

use std::fmt::Write;

use becalm_core::observe::Class;
use becalm_core::observe::tally::ClassTally;
use becalm_host::trace::Image;
use becalm_lib::escape::shown;
use becalm_lib::words::{counted, grouped};

use crate::check::text::{BAR, bar};
use crate::terminal::style::Look;
use crate::trace::time::milliseconds;

/// The classes with misses, the worst first, with the directory that misses most.
#[must_use]
pub(crate) fn table(look: Look, image: &Image, rows: usize) -> String {
    let mut text = String::new();
    let missing: Vec<&(Class, ClassTally)> =
        image.classes.iter().filter(|(_, tally)| tally.missed.total() > 0).collect();
    let Some((_, worst)) = missing.first() else { return text };
    let most = worst.missed.total();
    let _ = writeln!(text, "\n  {}", look.strong("misses after the entry point"));
    for (class, tally) in missing.iter().take(rows) {
        let misses = tally.missed.total();
        let bar = bar(misses, most);
        let padding = " ".repeat(BAR as usize - bar.chars().count());
        let head = format!("{}, {} ms", class.title(), milliseconds(tally.missed.ns));
        let dirs = tally.dirs.len() as u64;
        let place = match tally.dirs.first() {
            Some((dir, _)) if dir.is_empty() => "; most as bare names".to_owned(),
            Some((dir, _)) if dirs == 1 => format!("; in {}", shown(dir.as_ref())),
            Some((dir, _)) => format!(
                "; in {}, most in {}",
                counted(dirs, "directory", "directories"),
                shown(dir.as_ref())
            ),
            None => String::new(),
        };
        let tail = look.fitted(&place, 24 + head.chars().count());
        let count = grouped(misses);
        let _ = writeln!(text, "  {count:>6}  {}{padding}  {head}{tail}", look.costly(&bar));
    }
    text
}

/// Successful lookups that repeat an earlier one, from which on they are shown: some are normal.
const MANY: u64 = 100;

/// The classes that ask again and again with success, the worst first, with the path that is asked
/// for most.
#[must_use]
pub(crate) fn repeated(look: Look, image: &Image, rows: usize) -> String {
    let mut text = String::new();
    let mut asking: Vec<&(Class, ClassTally)> =
        image.classes.iter().filter(|(_, tally)| tally.repeated.count >= MANY).collect();
    asking.sort_by_key(|(_, tally)| std::cmp::Reverse(tally.repeated.count));
    let Some((_, worst)) = asking.first() else { return text };
    let most = worst.repeated.count;
    let _ = writeln!(text, "\n  {}", look.strong("found before and asked again"));
    for (class, tally) in asking.iter().take(rows) {
        let repeated = &tally.repeated;
        let bar = bar(repeated.count, most);
        let padding = " ".repeat(BAR as usize - bar.chars().count());
        let head = format!("{}, {} ms", class.title(), milliseconds(repeated.ns));
        let paths = repeated.paths.len() as u64;
        let place = repeated.paths.first().map_or_else(String::new, |(path, _)| {
            format!("; {}, most {}", counted(paths, "path", "paths"), shown(path.as_ref()))
        });
        let tail = look.fitted(&place, 24 + head.chars().count());
        let count = grouped(repeated.count);
        let _ = writeln!(text, "  {count:>6}  {}{padding}  {head}{tail}", look.costly(&bar));
    }
    text
}
