//! Text for the page.

/// Formats a share of a whole for a style: per cent with one digit.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    format!("{:.1}", 100.0 * part as f64 / whole.max(1) as f64)
}
