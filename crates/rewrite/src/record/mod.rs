//! What becalm writes of itself into a file it edits, all of it behind the original's
//! end: a *leader* where the appended part begins, a *trailer* with the bytes that were
//! overwritten, and a *footer* as the file's last bytes.
//!
//! ```text
//! original │ leader │ segment, section headers │ trailer │ footer     one record
//! ```
//!
//! A further edit in place appends a further record behind the last; the last complete
//! one counts. Numbers are little-endian in every file.
//!
//! Whether a file was changed by something else is told from: its length, the hash of
//! its first 4 KiB as they were, every overwritten range, and everything appended. A
//! change elsewhere in the original's bytes is not seen, for that would mean reading the
//! whole file; `undo` leaves such a change in place.

mod codec;
mod find;
mod goal;
mod write;

pub(crate) use find::{History, Status, find};
pub(crate) use write::{Content, finish};

use object::ReadRef;
use twox_hash::XxHash3_64;

use crate::image::{Image, bytes_at};
use crate::notes;

/// Begins the appended part. None of the three begins or ends with a zero byte, so that
/// padding is never taken for one.
const LEADER: [u8; 8] = *b"\x7fbecalmL";
/// Ends the file.
const FOOTER: [u8; 8] = *b"\x7fbecalmF";
/// The first bytes of the segment we add.
pub(crate) const SEGMENT: [u8; 8] = *b"\x7fbecalmS";
/// Size of a leader: magic, original length, end of the record before (0: none), end of
/// this record, hash of what the original is watched by, hash of all that.
pub(crate) const LEADER_SIZE: u64 = 48;
/// Size of a footer: magic, version, zero, start of the trailer, hash of trailer and
/// footer.
const FOOTER_SIZE: u64 = 32;
/// Version of the format.
const VERSION: u32 = 1;
/// The largest trailer that is read.
const TRAILER_MAX: u64 = 64 << 20;
/// How much of the original's beginning is hashed.
const HEAD: u64 = 4096;

fn hash(parts: &[&[u8]]) -> u64 {
    let mut hasher = XxHash3_64::new();
    for part in parts {
        std::hash::Hasher::write(&mut hasher, part);
    }
    std::hash::Hasher::finish(&hasher)
}

/// What an original is watched by where no trailer says what was overwritten: its
/// beginning, its dynamic section and the headers of its resolution notes. Every edit
/// changes one of them.
fn watched<'data, R: ReadRef<'data>>(image: &Image, original: R) -> Option<u64> {
    let head = bytes_at(original, 0, HEAD.min(image.length))?;
    let dynamic = image.dynamic.as_ref().map_or(Some(&[][..]), |dynamic| {
        let size = (dynamic.entries.len() as u64 + 1) * image.format.dyn_size();
        bytes_at(original, dynamic.offset, size)
    })?;
    let mut parts = vec![head, dynamic];
    for note in notes::resolution(image, original) {
        parts.push(bytes_at(original, note.offset, notes::HEADER_SIZE)?);
    }
    Some(hash(&parts))
}

/// One overwritten range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) offset: u64,
    pub(crate) old: Vec<u8>,
    /// As long as `old`.
    pub(crate) new: Vec<u8>,
}

/// A trailer, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trailer {
    pub(crate) original_length: u64,
    /// Where the record before this one ends; 0 where this is the first.
    pub(crate) previous_end: u64,
    /// Where the leader stands.
    leader: u64,
    /// Where the appended content begins.
    content: u64,
    /// Where the trailer itself begins, which is where the content ends.
    start: u64,
    head_hash: u64,
    content_hash: u64,
    /// The goal, encoded.
    goal: Vec<u8>,
    /// Ascending, none overlapping.
    pub(crate) ranges: Vec<Range>,
}
