//! Compares the applied answers in an object with those of the plain search, strategy by strategy.

use bstr::{BString, ByteSlice};
use serde::Serialize;

use super::applied::Applied;
pub use super::applied::Verdict;
use super::names::Strategy;
use super::settings::Settings;
use crate::closure::Subject;
use crate::fs::FileSystem;
use crate::lossy::lossy;

/// One answer, compared with that of the search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// The strategy that gives it.
    #[serde(rename = "carrier")]
    pub strategy: Strategy,
    /// The needed string. It is empty if the verdict is about the whole note.
    #[serde(serialize_with = "lossy")]
    pub needed: BString,
    /// The result of the comparison.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// An object with a farm or a loader cache that was not compared.
///
/// [`object`] does not check files outside the named stores.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unjudged {
    /// The object.
    #[serde(serialize_with = "lossy")]
    pub path: BString,
    /// The strategy.
    #[serde(rename = "carrier")]
    pub strategy: Strategy,
    /// The store to name: the directory of the package.
    #[serde(serialize_with = "lossy")]
    pub store: BString,
}

/// Returns the answers that [`object`] does not check, because `settings` lacks their store. The report
/// names the object by `path`.
#[must_use]
pub fn unjudged(
    fs: &dyn FileSystem,
    subject: &Subject,
    settings: &Settings,
    path: &BString,
) -> Vec<Unjudged> {
    let applied = Applied::new(fs, subject, settings);
    let of = |&strategy: &Strategy| {
        let package = (strategy.row().unnamed)(&applied)?;
        let end = package.rfind_byte(b'/').filter(|&end| end > 0)?;
        Some(Unjudged { path: path.clone(), strategy, store: package[..end].into() })
    };
    Strategy::ALL.iter().filter_map(of).collect()
}

/// Checks every applied answer of an object.
#[must_use]
pub fn object(fs: &dyn FileSystem, subject: &Subject, settings: &Settings) -> Vec<Checked> {
    let applied = Applied::new(fs, subject, settings);
    let of = |&strategy: &Strategy| {
        let answers = (strategy.row().verify)(&applied).into_iter();
        answers.map(move |(needed, verdict)| Checked { strategy, needed, verdict })
    };
    Strategy::ALL.iter().flat_map(of).collect()
}
