//! The hashes of the table: the same functions as in `crates/audit/module/hash.c`.
//!
//! They are quick on short strings and detect corruption, not tampering. An attacker who can write an
//! index can write any answer anyway.

use bstr::BStr;

use crate::loader::glibc::run_path::RunPath;
use crate::search::order::Requester;

const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
const FINISH: u64 = 0xbf58_476d_1ce4_e5b9;

/// Hashes bytes, eight at a time, as little-endian numbers on every machine.
#[must_use]
pub fn bytes(seed: u64, bytes: &[u8]) -> u64 {
    let mut hash = seed ^ (bytes.len() as u64).wrapping_mul(FACTOR);
    let (words, rest) = bytes.as_chunks();
    for word in words {
        hash = mix(hash, u64::from_le_bytes(*word));
    }
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        hash = mix(hash, u64::from_le_bytes(word));
    }
    hash ^= hash >> 32;
    hash = hash.wrapping_mul(FINISH);
    hash ^ hash >> 29
}

/// Hashes words as [`bytes`] does, in little-endian order.
pub(super) fn words(seed: u64, words: impl IntoIterator<Item = u64>) -> u64 {
    let words: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
    bytes(seed, &words)
}

/// Hashes a block of bindings. Four lanes do not wait for each other's multiplications.
#[must_use]
pub(super) fn block(seed: u64, block: &[u8]) -> u64 {
    let (groups, rest) = block.as_chunks::<32>();
    let mut lanes = [0, 1, 2, 3];
    for group in groups {
        for (lane, word) in lanes.iter_mut().zip(group.as_chunks().0) {
            *lane = mix(*lane, u64::from_le_bytes(*word));
        }
    }
    bytes(lanes.into_iter().fold(seed ^ block.len() as u64, mix), rest)
}

fn mix(hash: u64, word: u64) -> u64 {
    let hash = (hash ^ word).wrapping_mul(FACTOR);
    hash ^ hash >> 29
}

/// Returns the lower half of the hash, as stored in the table.
#[must_use]
pub(super) fn low(seed: u64, of: &[u8]) -> u32 {
    bytes(seed, of) as u32
}

/// Returns the digest of an object's run path. The module computes it from the object in memory and
/// gives no answer if it differs, which detects an object that was replaced.
#[must_use]
pub(crate) fn run_path_digest(run_path: &RunPath<'_>) -> u32 {
    let Requester { has_rpath, no_default_dirs, .. } = run_path.requester;
    let seed = 1 | u64::from(has_rpath) << 1 | u64::from(no_default_dirs) << 2;
    low(seed, run_path.value)
}

/// The hash of a name in a directory. Bit 0 is set if the file with this name is certain to be the
/// answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NameHash(pub u64);

impl NameHash {
    /// Hashes a name. `certain` is true if the file is an object for the table's machine, and in
    /// the directory itself. It then cannot change without the directory's fingerprint.
    #[must_use]
    pub fn of(name: &BStr, certain: bool) -> Self {
        Self(bytes(0, name) & !1 | u64::from(certain))
    }
}
