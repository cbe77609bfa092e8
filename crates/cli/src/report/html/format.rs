//! Text for the page.

/// A path as a shell takes it for one word; what is made fit to be shown is no longer
/// that path, and has to be typed in.
pub(crate) fn quoted(path: &str) -> String {
    match shlex::try_quote(path) {
        Ok(path) if !path.contains('\\') => path.into_owned(),
        _ => "PROGRAM".to_owned(),
    }
}

/// A share of a whole for a style: per cent with one digit.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    format!("{:.1}", 100.0 * part as f64 / whole.max(1) as f64)
}
