//! The record of an edit, after the end of the original: a *leader* at the start of the appended part,
//! a *trailer* with the overwritten bytes, and a *footer* as the last bytes of the file.
//!
//! ```text
//! original │ leader │ segment, section headers │ trailer │ footer     one record
//! ```
//!
//! A further edit in place appends a further record. The last complete one counts. Numbers are
//! little-endian in every file.
//!
//! A change by something else is detected from the length of the file, the hash of the original's
//! first 4 KiB, every overwritten range, and the appended bytes. A change of other bytes of the
//! original is not detected, because that would mean reading the whole file. `undo` keeps such a
//! change.

mod codec;
mod find;
mod write;

pub(crate) use find::{History, find, is_removed};
pub(crate) use write::{Content, finish};

use twox_hash::XxHash3_64;

use crate::image::Image;
use crate::notes;

/// The magic of a leader. None of the three magics begins or ends with a zero byte, so that padding
/// never looks like one.
const LEADER: [u8; 8] = *b"\x7fbecalmL";
/// The magic of a footer.
const FOOTER: [u8; 8] = *b"\x7fbecalmF";
/// The magic of the appended segment.
pub(crate) const SEGMENT: [u8; 8] = *b"\x7fbecalmS";
/// The size of a leader: magic, length of the original, end of the record before (0 if there is none),
/// end of this record, [`watched`] hash of the original, hash of these fields.
pub(crate) const LEADER_SIZE: u64 = 48;
/// The size of a footer: magic, version, start of the trailer, hash of trailer and footer.
const FOOTER_SIZE: u64 = 32;
/// The version of the format.
const VERSION: u64 = 1;
/// The limit on the size of a trailer.
const TRAILER_MAX: u64 = 64 << 20;
/// The number of hashed bytes at the start of the original.
const HEAD: u64 = 4096;

fn hash(parts: &[&[u8]]) -> u64 {
    let mut hasher = XxHash3_64::new();
    for part in parts {
        std::hash::Hasher::write(&mut hasher, part);
    }
    std::hash::Hasher::finish(&hasher)
}

/// Returns a magic, numbers, and the hash of `before` and these.
fn sealed(magic: [u8; 8], numbers: &[u64], before: &[u8]) -> Vec<u8> {
    let numbers = numbers.iter().flat_map(|number| number.to_le_bytes());
    let bytes: Vec<u8> = magic.into_iter().chain(numbers).collect();
    [&bytes[..], &hash(&[before, &bytes]).to_le_bytes()].concat()
}

/// Reads the numbers after a magic; `None` if the bytes begin with another one, or end before.
fn numbers<const N: usize>(bytes: &[u8], magic: [u8; 8]) -> Option<[u64; N]> {
    let numbers: &[[u8; 8]; N] = bytes.strip_prefix(&magic)?.as_chunks().0.first_chunk()?;
    Some(numbers.map(u64::from_le_bytes))
}

/// Hashes the parts of an original that an edit can change: its first bytes, its dynamic section and
/// the headers of its resolution notes. The hash detects overwritten bytes if there is no trailer.
fn watched(original: &Image) -> Option<u64> {
    let head = original.bytes_at(0, HEAD.min(original.length))?;
    let dynamic = original.dynamic.as_ref().map_or(Some(&[][..]), |dynamic| {
        let size = (dynamic.entries.len() as u64 + 1) * original.format.encoder().dyn_size();
        original.bytes_at(dynamic.offset, size)
    })?;
    let mut parts = vec![head, dynamic];
    for note in notes::resolution(original) {
        parts.push(original.bytes_at(note.offset, notes::HEADER_SIZE)?);
    }
    Some(hash(&parts))
}

/// One overwritten range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) offset: u64,
    pub(crate) old: Vec<u8>,
    /// The new bytes, as many as `old`.
    pub(crate) new: Vec<u8>,
}

/// A trailer, decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trailer {
    pub(crate) original_length: u64,
    /// The end of the record before this one, or 0 for the first record.
    pub(crate) previous_end: u64,
    /// The offset of the leader.
    leader: u64,
    /// The offset of the appended content.
    content: u64,
    /// The offset of the trailer itself, which is the end of the content.
    start: u64,
    head_hash: u64,
    content_hash: u64,
    /// The goal, encoded.
    goal: Vec<u8>,
    /// The overwritten ranges, in ascending order and without overlap.
    pub(crate) ranges: Vec<Range>,
}
