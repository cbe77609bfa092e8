//! The comparison for a reader at a terminal.

use std::fmt::Write;
use std::iter;

use becalm_lib::compare::comparison::{Cell, Comparison, Row, RowKind, Verdict};

/// Returns the tables, the reference of their numbers, and the notes. Writing to a String cannot
/// fail.
pub(super) fn table(comparison: &Comparison) -> String {
    let mut text = format!("{}\n", comparison.program);
    let mut footnotes = Footnotes::default();
    for kind in [RowKind::Measure, RowKind::Property] {
        let rows: Vec<&Row> = comparison.rows.iter().filter(|row| row.kind == kind).collect();
        if !rows.is_empty() {
            part(&mut text, comparison, &rows, &mut footnotes);
        }
    }
    text.push('\n');
    for (at, note) in footnotes.0.iter().enumerate() {
        let _ = writeln!(text, "  {:>4} {note}", format!("[{}]", at + 1));
    }
    for note in &comparison.notes {
        let _ = writeln!(text, "       {}", note);
    }
    text
}

/// Appends rows under the names of the columns.
fn part<'a>(
    text: &mut String,
    comparison: &Comparison,
    rows: &[&'a Row],
    footnotes: &mut Footnotes<'a>,
) {
    let mut words = |cell: &'a Cell| {
        let is_tried = cell.verdict != Some(Verdict::NotTried);
        footnotes.numbered(cell, if is_tried { &cell.text } else { "–" })
    };
    let names = iter::once(String::new()).chain(comparison.columns.iter().cloned());
    let mut lines: Vec<Vec<String>> = vec![names.collect()];
    for row in rows {
        lines.push(iter::once(row.title.clone()).chain(row.cells.iter().map(&mut words)).collect());
    }
    let width = |at: usize| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..lines[0].len()).map(width).collect();
    text.push('\n');
    for line in &lines {
        let _ = write!(text, "  {:1$}", line[0], widths[0]);
        for (words, width) in line.iter().zip(&widths).skip(1) {
            let _ = write!(text, "  {words:>width$}");
        }
        text.push('\n');
    }
}

/// The notes of cells, each once, numbered in order of appearance.
#[derive(Default)]
pub(super) struct Footnotes<'a>(pub(super) Vec<&'a str>);

impl<'a> Footnotes<'a> {
    /// Returns the text of a cell with the number of its note.
    pub(super) fn numbered(&mut self, cell: &'a Cell, text: &str) -> String {
        let Some(note) = cell.note.as_deref().filter(|note| !note.is_empty()) else {
            return text.to_owned();
        };
        let at = self.0.iter().position(|known| *known == note).unwrap_or_else(|| {
            self.0.push(note);
            self.0.len() - 1
        });
        format!("{text} [{}]", at + 1)
    }
}
