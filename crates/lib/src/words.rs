//! Descriptions of errors of the system and of the host, without the path.

use std::error::Error;
use std::io;

use becalm_core::fs::Errno;
use becalm_host::HostError;
use bstr::{BString, ByteSlice};

use crate::escape::shown;
pub use crate::path::path_bytes;
pub use becalm_host::error::words;

/// Returns the system's description of an errno.
#[must_use]
pub fn errno_words(errno: Errno) -> String {
    words(&io::Error::from_raw_os_error(errno.0))
}

/// Describes an error and its causes, down to the system's message.
#[must_use]
pub fn words_of_chain(error: &(dyn Error + 'static)) -> String {
    let chain = std::iter::successors(Some(error), |&error| error.source());
    chain.map(told).collect::<Vec<_>>().join(": ")
}

fn told(error: &(dyn Error + 'static)) -> String {
    error.downcast_ref::<io::Error>().map_or_else(|| error.to_string(), words)
}

/// Returns the path that an error of the host is about, and a description of the error.
#[must_use]
pub fn words_of_host(error: &HostError) -> (BString, String) {
    let reason = match error {
        HostError::Read { source, .. } | HostError::Interpreter { source, .. } => words(source),
        HostError::Unusable { reason, .. } => reason.clone(),
    };
    (path_bytes(error.path()), reason)
}

/// Describes the error of a program's interpreter.
#[must_use]
pub fn words_of_interpreter(error: &HostError) -> String {
    let (path, reason) = words_of_host(error);
    format!("interpreter {}: {reason}", shown(path.as_bstr()))
}

/// Formats seconds: those above 10 ms with two decimals, shorter times in milliseconds.
#[must_use]
pub fn seconds(seconds: f64) -> String {
    if seconds < 0.01 { format!("{:.2} ms", seconds * 1e3) } else { format!("{seconds:.2} s") }
}

/// Formats a number with separators of thousands: 12,345.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number and its noun, in the plural if needed.
#[must_use]
pub fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { many })
}

/// Formats nanoseconds as milliseconds, with the significant digits.
#[must_use]
pub fn milliseconds(ns: u64) -> String {
    let digits = match ns {
        0 | 100_000_000.. => return grouped((ns + 500_000) / 1_000_000),
        1..100_000 => 3,
        ..10_000_000 => 2,
        _ => 1,
    };
    format!("{:.digits$}", ns as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_errno_is_told_in_words_without_its_number() {
        assert_eq!(errno_words(Errno::NOENT), "No such file or directory");
        assert_eq!(errno_words(Errno::ACCES), "Permission denied");
    }

    #[test]
    fn small_times_keep_their_digits() {
        let texts = [0, 1_234, 12_345_678, 1_234_567_890].map(milliseconds);
        assert_eq!(texts, ["0", "0.001", "12.3", "1,235"]);
    }

    #[test]
    fn thousands_are_set_apart() {
        let texts = [0, 999, 1000, 1_234_567].map(grouped);
        assert_eq!(texts, ["0", "999", "1,000", "1,234,567"]);
    }
}
