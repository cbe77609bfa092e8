//! The notes below the table, each once.

use becalm_lib::compare::comparison::Cell;

/// The notes of cells, each once, numbered in order of appearance.
#[derive(Default)]
pub(super) struct Footnotes<'a>(pub(super) Vec<&'a str>);

impl<'a> Footnotes<'a> {
    /// Returns the number of a cell's note.
    pub(super) fn of(&mut self, cell: &'a Cell) -> Option<usize> {
        let note = cell.note.as_deref().filter(|note| !note.is_empty())?;
        let at = self.0.iter().position(|known| *known == note).unwrap_or_else(|| {
            self.0.push(note);
            self.0.len() - 1
        });
        Some(at + 1)
    }
}
