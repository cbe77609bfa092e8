//! Adds the record to a finished draft.

use becalm_core::patch::{Patch, Write};

use super::{FOOTER, FOOTER_SIZE, HEAD, History, LEADER, LEADER_SIZE, Range, Trailer, VERSION};
use super::{codec, hash, sealed, watched};
use crate::goal::Goal;
use crate::image::{File, Image, Source};
use crate::overlay;
use crate::{Result, RewriteError};

/// The number of equal bytes up to which two changed ranges are joined.
const JOIN: usize = 24;

/// The finished image without its record.
pub(crate) struct Content {
    /// The offset of the leader: the end of the original, or of the last record.
    pub(crate) append_at: u64,
    /// The offset of `appended`.
    pub(crate) offset: u64,
    /// The appended segments, section names and section headers.
    pub(crate) appended: Vec<u8>,
    /// The overwritten ranges of the original, in ascending order and without overlap.
    pub(crate) writes: Vec<Write>,
    /// The offset and length of the note's descriptor.
    pub(crate) note: Option<(u64, u64)>,
    /// True if the program header table is one of the appended bytes.
    pub(crate) table_moves: bool,
}

/// Makes the patch for the present file. `history` has the earlier edits, `original` is the
/// file before them, and `length` is the present length.
///
/// # Errors
/// Returns [`RewriteError::Malformed`] if the original cannot be read.
pub(crate) fn finish(
    content: Content,
    wanted: &Goal,
    original: &Image,
    history: &History,
    length: u64,
) -> Result<Patch> {
    let broken = RewriteError::Malformed("the file cannot be read");
    let original_length = original.length;
    let head = original.bytes_at(0, HEAD.min(original_length)).ok_or(broken.clone())?;
    let previous_end = if content.append_at > original_length { content.append_at } else { 0 };
    let writes = content.writes.as_slice();
    let before = &history.trailer.ranges;
    let written = ranges(original, writes, before).ok_or(broken.clone())?;
    // The last record must be enough to undo all edits, so it contains the ranges of the one before.
    let recorded = if previous_end > 0 {
        written.clone()
    } else {
        ranges(original, writes, &[]).ok_or(broken.clone())?
    };
    let mut trailer = Trailer {
        original_length,
        previous_end,
        leader: content.append_at,
        content: content.offset,
        start: content.offset + content.appended.len() as u64,
        head_hash: hash(&[head]),
        content_hash: hash(&[&content.appended]),
        goal: codec::encode(wanted, content.note),
        ranges: recorded,
    };
    let mut body = trailer.encode();
    let end = trailer.start + body.len() as u64 + FOOTER_SIZE;
    let footer = sealed(FOOTER, &[VERSION, trailer.start], &body);
    body.extend(footer);
    let watched = watched(original).ok_or(broken)?;
    let mut leader = sealed(LEADER, &[original_length, previous_end, end, watched], &[]);
    // The hole between leader and content is zeroed: it may have bytes of an earlier record.
    let leader_end = content.append_at + LEADER_SIZE;
    let left = content.offset.min(length).saturating_sub(leader_end);
    leader.resize((LEADER_SIZE + left) as usize, 0);
    let mut writes: Vec<Write> =
        written.into_iter().map(|range| Write { offset: range.offset, bytes: range.new }).collect();
    // The first write after the end of the file: a writer in place syncs it before the others.
    writes.push(Write { offset: content.append_at, bytes: leader });
    let bytes = [content.appended, body].concat();
    writes.push(Write { offset: content.offset, bytes });
    Ok(Patch { writes, length: end })
}

/// Returns the ranges in which the finished file differs from the original, and those of the record
/// before.
fn ranges(original: &Image, writes: &[Write], before: &[Range]) -> Option<Vec<Range>> {
    let mut places = Vec::new();
    for write in writes {
        let old = original.bytes_at(write.offset, write.bytes.len() as u64)?;
        differing(write.offset, old, &write.bytes, &mut places);
    }
    for range in before {
        places.push(range.offset..range.offset + range.old.len() as u64);
    }
    places.sort_by_key(|place| place.start);
    // The ranges of a trailer must not overlap.
    let mut joined: Vec<std::ops::Range<u64>> = Vec::new();
    for place in places {
        match joined.last_mut() {
            Some(last) if place.start <= last.end => last.end = last.end.max(place.end),
            _ => joined.push(place),
        }
    }
    let finished = overlay::new(original.data, writes, original.length);
    let finished = File::new(&finished);
    joined
        .into_iter()
        .map(|place| {
            let size = place.end - place.start;
            Some(Range {
                offset: place.start,
                old: original.bytes_at(place.start, size)?.to_vec(),
                new: finished.bytes_at(place.start, size)?.to_vec(),
            })
        })
        .collect()
}

fn differing(offset: u64, old: &[u8], new: &[u8], places: &mut Vec<std::ops::Range<u64>>) {
    let mut open: Option<std::ops::Range<usize>> = None;
    for at in (0..old.len()).filter(|&at| old[at] != new[at]) {
        match &mut open {
            Some(run) if at - run.end <= JOIN => run.end = at + 1,
            _ => {
                let done = open.replace(at..at + 1);
                places.extend(done.map(|run| offset + run.start as u64..offset + run.end as u64));
            }
        }
    }
    places.extend(open.map(|run| offset + run.start as u64..offset + run.end as u64));
}
