//! The hash of the table: the same function as `hash_bytes` in `crates/lib/audit/table.c`.
//!
//! Quick on short strings, and good enough to tell damage from truth; it keeps no secret
//! and withstands no attacker. Who can write an index can already answer as they like.

use bstr::BStr;

const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
const FINISH: u64 = 0xbf58_476d_1ce4_e5b9;

/// Hash of bytes, taken eight at a time, little-endian on every machine.
#[must_use]
pub fn bytes(seed: u64, bytes: &[u8]) -> u64 {
    let mut hash = seed ^ (bytes.len() as u64).wrapping_mul(FACTOR);
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(FACTOR);
        hash ^= hash >> 29;
    }
    hash ^= hash >> 32;
    hash = hash.wrapping_mul(FINISH);
    hash ^ hash >> 29
}

/// The lower half, as the table keeps it.
#[must_use]
pub(super) fn low(seed: u64, of: &[u8]) -> u32 {
    bytes(seed, of) as u32
}

/// Which run path an object's answers rest on: the module works it out from the object in
/// memory, so that one replaced by another with a different run path is not answered for.
#[must_use]
pub fn run_path_digest(value: &BStr, is_rpath: bool, no_default_dirs: bool) -> u32 {
    let seed = 1 | u64::from(is_rpath) << 1 | u64::from(no_default_dirs) << 2;
    low(seed, value)
}

/// A name in a directory, and whether the file of that name is sure to answer: bit 0 set
/// where it is, the other bits of the hash of the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NameHash(pub u64);

impl NameHash {
    /// `certain`: the file is an object for the table's machine and lies in the directory
    /// itself, so that it cannot change without the directory's stamp.
    #[must_use]
    pub fn of(name: &BStr, certain: bool) -> Self {
        Self(bytes(0, name) & !1 | u64::from(certain))
    }
}
