//! `becalm/compare/1`: strategies beside each other, each cell measured or tried.
//!
//! Written by `becalm compare --json`, read by `becalm report --compare`.

use serde::{Deserialize, Serialize};

use crate::json;

/// The row whose `no` is a finding.
pub(super) const SAME: &str = "same-objects";

/// The whole table: the JSON document of `becalm compare`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The program that was compared.
    pub program: String,
    /// The strategies, the untouched control among them; one cell of each row each.
    pub columns: Vec<String>,
    /// Measurements and properties.
    pub rows: Vec<Row>,
    /// Notes for the reader, a sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl json::Report for Comparison {
    const SCHEMA: &'static str = "becalm/compare/1";
}

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
    /// Its name for programs.
    pub id: String,
    /// Its name for readers.
    pub title: String,
    /// Whether it has a number or an answer.
    pub kind: RowKind,
    /// One for each column, in the same order.
    pub cells: Vec<Cell>,
}

/// Kind of the cells of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RowKind {
    /// A number that was measured.
    Measure,
    /// A property that an experiment showed to hold or not.
    Property,
}

/// One cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The number; none for a property, or where nothing was measured.
    #[serde(default)]
    pub value: Option<f64>,
    /// Text shown to the reader.
    #[serde(default)]
    pub text: String,
    /// The answer; none for a measure.
    #[serde(default)]
    pub verdict: Option<Verdict>,
    /// Details, if the answer alone is not enough.
    #[serde(default)]
    pub note: Option<String>,
}

/// The answer of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It holds.
    Yes,
    /// It does not.
    No,
    /// It could not be tried here.
    NotTried,
    /// Any other: the note says what.
    #[serde(other)]
    Other,
}
