//! The comparison for readers: text for a terminal, Markdown for a page, JSON for programs.

use std::io::Write;

use anyhow::Result;

use crate::compare::args::CompareArgs;
use crate::compare::comparison::{Cell, Comparison};
use crate::compare::{markdown, text};
use crate::terminal::style::Look;

/// Writes the table in the form asked for.
///
/// # Errors
/// The output is gone.
pub(crate) fn write(
    out: &mut dyn Write,
    args: &CompareArgs,
    look: Look,
    comparison: &Comparison,
) -> Result<()> {
    if args.json {
        serde_json::to_writer(&mut *out, comparison)?;
        writeln!(out)?;
    } else if args.markdown {
        out.write_all(markdown::table(comparison).as_bytes())?;
    } else {
        out.write_all(text::table(look, comparison).as_bytes())?;
    }
    Ok(())
}

/// The notes of cells, each once, numbered as they are met.
#[derive(Default)]
pub(crate) struct Footnotes<'a>(pub(crate) Vec<&'a str>);

impl<'a> Footnotes<'a> {
    /// The number of a cell's note.
    pub(crate) fn of(&mut self, cell: &'a Cell) -> Option<usize> {
        let note = cell.note.as_deref().filter(|note| !note.is_empty())?;
        let at = self.0.iter().position(|known| *known == note).unwrap_or_else(|| {
            self.0.push(note);
            self.0.len() - 1
        });
        Some(at + 1)
    }
}
