//! Numbers and paths as words.

use std::path::Path;

use sha2::{Digest, Sha256};

/// Formats a number for a table.
pub(crate) fn grouped(number: usize) -> String {
    becalm_lib::words::grouped(number as u64)
}

/// Returns the context of an error about a file.
pub(crate) fn naming(path: &Path) -> impl Fn() -> String + Copy + '_ {
    move || path.display().to_string()
}

/// Returns the 32 hex digits with which a package's directory starts in a store.
pub(crate) fn hash(identity: &str) -> String {
    let digest = Sha256::digest(identity.as_bytes());
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}
