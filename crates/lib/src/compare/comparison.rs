//! `becalm/compare/1`: the strategies side by side, with a measurement or a test result in each
//! cell.
//!
//! Written by `lab compare --json`, read by `becalm report --compare`.

use serde::{Deserialize, Serialize};

use crate::json;

/// Identifier of the row in which the verdict `no` is a finding.
pub const SAME: &str = "same-objects";

/// The whole table: the JSON document of `lab compare`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The program that was compared.
    pub program: String,
    /// The strategies, with the unchanged control; each row has one cell for each.
    pub columns: Vec<String>,
    /// Measurements and properties.
    pub rows: Vec<Row>,
    /// Notes for the reader, a sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
}

json::schema!(Comparison, "becalm/compare/1");

impl Comparison {
    /// Returns true if a strategy made the program load something else.
    #[must_use]
    pub fn has_finding(&self) -> bool {
        let row = self.rows.iter().find(|row| row.id == SAME);
        row.is_some_and(|row| row.cells.iter().any(|cell| cell.verdict == Some(Verdict::No)))
    }
}

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Its identifier.
    pub id: String,
    /// Its title.
    pub title: String,
    /// The kind of its cells.
    pub kind: RowKind,
    /// One cell for each column, in the same order.
    pub cells: Vec<Cell>,
}

/// Kind of the cells of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RowKind {
    /// A number that was measured.
    Measure,
    /// A property that was tested.
    Property,
}

/// One cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The number; null for a property, or if nothing was measured.
    pub value: Option<f64>,
    /// Text shown to the reader.
    #[serde(default)]
    pub text: String,
    /// The verdict; null for a measured number.
    pub verdict: Option<Verdict>,
    /// Details, if the verdict or the number alone is not enough.
    pub note: Option<String>,
}

/// The result of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The property holds.
    Yes,
    /// The property does not hold.
    No,
    /// The property could not be tested here.
    NotTried,
    /// Any other verdict: see the note.
    #[serde(other)]
    Other,
}
