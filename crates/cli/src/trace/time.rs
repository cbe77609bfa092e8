//! Times as text.

use becalm_lib::words::grouped;

/// Formats nanoseconds as milliseconds, with the significant digits.
#[must_use]
pub(crate) fn milliseconds(ns: u64) -> String {
    match ns {
        0 => "0".to_owned(),
        1..1_000_000 => format!("{:.3}", ns as f64 / 1e6),
        1_000_000..100_000_000 => format!("{:.1}", ns as f64 / 1e6),
        _ => grouped(ns / 1_000_000),
    }
}
