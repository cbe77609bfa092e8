//! The histogram of system calls, the most time first.

use std::fmt::Write;

use becalm_core::observe::SyscallRow;
use becalm_lib::trace::report::Seen;
use becalm_lib::words::{grouped, milliseconds};

use crate::terminal::style::Look;

/// Rows that are shown.
const ROWS: usize = 12;

/// Returns the table, with a row for the loader's failed lookups.
pub(crate) fn table(look: Look, seen: &Seen) -> String {
    let mut text = String::new();
    let rows = &seen.syscalls;
    let heading = format!(
        "{:>9}  {:>8}  {:>10}  {:>8}  {:>9}  system call",
        "calls", "errors", "total ms", "avg µs", "max µs"
    );
    let _ = writeln!(text, "\n  {}", look.strong(&heading));
    let misses = seen.storm.misses();
    if misses > 0 {
        let storm = SyscallRow {
            name: "the storm: the loader's misses".to_owned(),
            count: misses,
            errors: misses,
            total_ns: seen.storm_ns,
            max_ns: 0,
        };
        let _ = writeln!(text, "  {}", look.costly(&line(&storm)));
    }
    for row in rows.iter().take(ROWS) {
        let _ = writeln!(text, "  {}", line(row));
    }
    if let Some(rest) = rows.get(ROWS..).filter(|rest| !rest.is_empty()) {
        let others = SyscallRow {
            name: format!("{} others", rest.len()),
            count: rest.iter().map(|row| row.count).sum(),
            errors: rest.iter().map(|row| row.errors).sum(),
            total_ns: rest.iter().map(|row| row.total_ns).sum(),
            max_ns: rest.iter().map(|row| row.max_ns).max().unwrap_or(0),
        };
        let _ = writeln!(text, "  {}", look.faint(&line(&others)));
    }
    text
}

fn line(row: &SyscallRow) -> String {
    let average = row.total_ns.checked_div(row.count).unwrap_or(0);
    let most = if row.max_ns == 0 { String::new() } else { microseconds(row.max_ns) };
    format!(
        "{:>9}  {:>8}  {:>10}  {:>8}  {most:>9}  {}",
        grouped(row.count),
        grouped(row.errors),
        milliseconds(row.total_ns),
        microseconds(average),
        row.name
    )
}

fn microseconds(ns: u64) -> String {
    format!("{}.{}", grouped(ns / 1000), ns % 1000 / 100)
}
