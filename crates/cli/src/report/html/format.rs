//! Text for the page.

/// Quotes a path as one word of a shell. A path with unprintable characters is displayed escaped,
/// and has to be typed by hand.
pub(crate) fn quoted(path: &str) -> String {
    match shlex::try_quote(path) {
        Ok(path) if !path.contains('\\') => path.into_owned(),
        _ => "PROGRAM".to_owned(),
    }
}

/// Formats a share of a whole for a style: per cent with one digit.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    format!("{:.1}", 100.0 * part as f64 / whole.max(1) as f64)
}
