//! The comparison as a table for a page.

use std::fmt::Write;

use crate::compare::text::Footnotes;
use becalm_lib::compare::comparison::{Comparison, RowKind};

/// Returns the table, the reference of its numbers, and the notes. Writing to a String cannot fail.
pub(super) fn table(comparison: &Comparison) -> String {
    let mut text = format!("| |{}\n", joined(comparison.columns.iter().map(|name| escaped(name))));
    let _ = writeln!(text, "| --- |{}", " ---: |".repeat(comparison.columns.len()));
    let mut footnotes = Footnotes::default();
    for row in &comparison.rows {
        let cells = row.cells.iter().map(|cell| footnotes.numbered(cell, &escaped(&cell.text)));
        let title = match row.kind {
            RowKind::Measure => escaped(&row.title),
            RowKind::Property => format!("**{}**", escaped(&row.title)),
        };
        let _ = writeln!(text, "| {title} |{}", joined(cells));
    }
    text.push('\n');
    for (at, note) in footnotes.0.iter().enumerate() {
        let _ = writeln!(text, "- [{}] {}", at + 1, escaped(note));
    }
    for note in &comparison.notes {
        let _ = writeln!(text, "- {}", escaped(note));
    }
    text
}

fn joined(cells: impl Iterator<Item = String>) -> String {
    cells.map(|cell| format!(" {cell} |")).collect()
}

/// Escapes text that would end a cell or is markup.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '|' | '<' | '>' | '*' | '_' | '`' | '\\' | '[' | ']') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}
