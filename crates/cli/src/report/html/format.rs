//! Text for the page. The templates pass references.

use becalm_lib::escape;
use becalm_lib::words::{grouped, milliseconds};

/// becalm's version.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The style of all pages.
pub(crate) const STYLE: &str = include_str!("report.css");

/// The script of the page about a start.
pub(crate) const SCRIPT: &str = include_str!("report.js");

/// The script of the page about a survey.
pub(crate) const FILTER: &str = include_str!("filter.js");

/// Formats a share of a whole for a style: per cent with one digit.
pub(crate) fn percent(part: &u64, whole: &u64) -> String {
    format!("{:.1}", 100.0 * *part as f64 / (*whole).max(1) as f64)
}

/// Formats nanoseconds as milliseconds.
pub(crate) fn ms(ns: &u64) -> String {
    milliseconds(*ns)
}

/// Formats a number with separators of thousands.
pub(crate) fn number(number: &u64) -> String {
    grouped(*number)
}

/// Returns text of a file, or a path, with its control characters escaped.
pub(crate) fn shown(text: impl AsRef<[u8]>) -> String {
    escape::shown(text.as_ref().into())
}
