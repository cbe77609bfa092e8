//! Finds the records of earlier edits in a file.

use becalm_core::patch::{Patch, Write};

use super::{
    FOOTER, FOOTER_SIZE, HEAD, LEADER, LEADER_SIZE, Range, SEGMENT, TRAILER_MAX, Trailer, VERSION,
};
use super::{codec, hash, numbers, watched};
use crate::goal::Goal;
use crate::image::{File, Image, Source};
use crate::overlay;
use crate::{Result, State};

/// The limit on the padding of the original between its last section and the leader.
const PADDING: u64 = 4096;
/// The limit on the records of one file. Each edit in place adds one.
const RECORDS_MAX: usize = 1 << 16;

/// The earlier edits of a file.
#[derive(Clone, Debug)]
pub(crate) struct History {
    /// The state after the last edit.
    pub(crate) state: State,
    /// The last complete record. If there is none, it has only the length of the original.
    pub(crate) trailer: Trailer,
    /// The end of the last complete record, or of the original.
    pub(crate) end: u64,
}

/// Finds the records of a file.
///
/// # Errors
/// Returns [`RewriteError::Malformed`] if the length of the file is unknown.
pub(crate) fn find(data: &dyn Source) -> Result<History> {
    let length = data.length()?;
    Ok(recorded(data, length).unwrap_or_else(|| History::without(State::Untouched, length)))
}

/// Returns the history of a file with records; `None` if there are none.
fn recorded(data: &dyn Source, length: u64) -> Option<History> {
    // A complete last record ends with the file.
    if let Some(trailer) = trailer_before(data, length) {
        return Some(complete(data, trailer, length));
    }
    // Otherwise the records are followed from the first leader on.
    let (mut leader_at, in_use) = leader_of(data, length)?;
    let mut last: Option<(Trailer, u64)> = None;
    let mut is_cut_off = false;
    for _ in 0..RECORDS_MAX {
        let Some(leader) = leader_at_offset(data, leader_at) else { break };
        let expected = last.as_ref().map_or(leader_at, |(trailer, _)| trailer.original_length);
        // A leader that names another original is stale.
        if leader.original_length != expected {
            break;
        }
        let done = trailer_before(data, leader.end).filter(|it| it.leader == leader_at);
        let Some(trailer) = done else {
            if last.is_none() {
                return Some(first(data, &leader, leader_at, length, in_use));
            }
            is_cut_off = true;
            break;
        };
        leader_at = leader.end;
        last = Some((trailer, leader.end));
    }
    let (trailer, end) = last?;
    let mut history = complete(data, trailer, end);
    let rest = data.bytes_at(end, (length - end).min(LEADER_SIZE))?;
    // The write of a further leader may have been interrupted.
    let begun = (rest.len() as u64) < LEADER_SIZE && LEADER.starts_with(&rest[..rest.len().min(8)]);
    history.state = match history.state {
        State::Edited { .. } if is_cut_off || begun => State::Appending,
        state if is_cut_off => state,
        _ => State::ChangedSince,
    };
    Some(history)
}

/// Returns true if a file without a record has the segment of an edit: a tool such as `strip` has
/// removed the record.
pub(crate) fn is_removed(data: &dyn Source) -> bool {
    let leader = data.length().ok().and_then(|length| leader_of(data, length));
    leader.is_some_and(|(_, in_use)| in_use)
}

/// Returns the history of a file whose first record is incomplete. The write was interrupted, or a
/// power failure left holes in the record. If a byte of the original was overwritten already, the
/// cause is something else.
fn first(data: &dyn Source, leader: &Leader, at: u64, length: u64, in_use: bool) -> History {
    let original = overlay::new(data, &[], at);
    let original = File::new(&original);
    let now = Image::read(&original).ok().and_then(|original| watched(&original));
    let cut_off = !in_use && now == Some(leader.watched) && length <= leader.end;
    let state = if cut_off { State::Appending } else { State::ChangedSince };
    History::without(state, at)
}

struct Leader {
    original_length: u64,
    end: u64,
    watched: u64,
}

fn leader_at_offset(data: &dyn Source, at: u64) -> Option<Leader> {
    let bytes = data.bytes_at(at, LEADER_SIZE)?;
    let [original_length, _, end, watched, check] = numbers(bytes, LEADER)?;
    let is_sound = check == hash(&[&bytes[..40]]) && original_length <= at && end > at;
    is_sound.then_some(Leader { original_length, end, watched })
}

/// Finds the first leader. The appended segment has its offset. Without the segment the leader follows
/// the end of the original. The flag is true if the segment is in the program header table.
fn leader_of(data: &dyn Source, length: u64) -> Option<(u64, bool)> {
    let image = Image::read(data).ok()?;
    // The appended segment is one of the last ones.
    for load in image.loads().rev().filter(|load| load.filesz >= 16) {
        let head = data.bytes_at(load.offset, 16);
        if let Some([at]) = head.and_then(|bytes| numbers(bytes, SEGMENT)) {
            return Some((at, true));
        }
    }
    let extent = image.extent();
    let size = length.checked_sub(extent)?.min(PADDING);
    let padding = data.bytes_at(extent, size)?.iter().position(|&byte| byte != 0)?;
    Some((extent + padding as u64, false))
}

/// Reads the trailer whose footer ends at `end`.
fn trailer_before(data: &dyn Source, end: u64) -> Option<Trailer> {
    let footer_at = end.checked_sub(FOOTER_SIZE)?;
    let footer = data.bytes_at(footer_at, FOOTER_SIZE)?;
    let [version, start, check] = numbers(footer, FOOTER)?;
    let size = footer_at.checked_sub(start).filter(|&size| size <= TRAILER_MAX)?;
    let body = data.bytes_at(start, size)?;
    // The hash detects a trailer that was not written completely.
    if version != VERSION || check != hash(&[body, &footer[..24]]) {
        return None;
    }
    Trailer::decode(body).filter(|trailer| trailer.start == start)
}

/// Compares a complete record with the file.
fn complete(data: &dyn Source, trailer: Trailer, end: u64) -> History {
    let state = state(data, &trailer).unwrap_or(State::ChangedSince);
    History { state, trailer, end }
}

fn state(data: &dyn Source, trailer: &Trailer) -> Option<State> {
    let content = data.bytes_at(trailer.content, trailer.start - trailer.content)?;
    let undo = trailer.undo();
    let original = overlay::new(data, &undo.writes, undo.length);
    let original = File::new(&original);
    let head = original.bytes_at(0, HEAD.min(trailer.original_length))?;
    if hash(&[head]) != trailer.head_hash {
        return Some(State::ChangedSince);
    }
    // A power failure can leave holes before a valid trailer. No range was overwritten then.
    let whole = hash(&[content]) == trailer.content_hash;
    let now: Vec<&[u8]> = trailer
        .ranges
        .iter()
        .map(|range| data.bytes_at(range.offset, range.old.len() as u64))
        .collect::<Option<_>>()?;
    if whole && trailer.ranges.iter().zip(&now).all(|(range, now)| range.new == *now) {
        return Some(State::Edited { original_length: trailer.original_length });
    }
    // In a torn file each byte is that of the original, of the edit before, or of the new edit.
    // The records before the previous one are complete.
    let before = Some(trailer.previous_end).filter(|&end| end > 0);
    let before = before.and_then(|end| trailer_before(data, end));
    let ours = trailer.ranges.iter().zip(&now).all(|(range, now)| {
        now.iter().enumerate().all(|(at, byte)| {
            let offset = range.offset + at as u64;
            *byte == range.old[at]
                || (whole && *byte == range.new[at])
                || before.iter().any(|trailer| trailer.new_byte(offset) == Some(*byte))
        })
    });
    Some(if ours { State::Torn } else { State::ChangedSince })
}

impl Trailer {
    /// Returns the patch that restores the original.
    pub(crate) fn undo(&self) -> Patch {
        let old = |range: &Range| Write { offset: range.offset, bytes: range.old.clone() };
        Patch { writes: self.ranges.iter().map(old).collect(), length: self.original_length }
    }

    fn new_byte(&self, offset: u64) -> Option<u8> {
        let index = self.ranges.partition_point(|range| range.offset <= offset).checked_sub(1)?;
        let range = &self.ranges[index];
        range.new.get(usize::try_from(offset - range.offset).ok()?).copied()
    }
}

impl History {
    /// Returns the history of a file without a complete record.
    fn without(state: State, length: u64) -> Self {
        let trailer = Trailer { original_length: length, ..Trailer::default() };
        Self { state, trailer, end: length }
    }

    /// Decodes the goal of the last complete edit. Returns `None` if the record's goal is invalid.
    pub(crate) fn goal(&self, data: &dyn Source) -> Option<Goal> {
        let Trailer { goal, content, start, .. } = &self.trailer;
        // The content of a record follows its leader.
        if *content == 0 {
            return Some(Goal::default());
        }
        codec::decode(goal, |offset, size| {
            let inside = *content <= offset && offset.checked_add(size)? <= *start;
            inside.then(|| data.bytes_at(offset, size).map(<[u8]>::to_vec)).flatten()
        })
    }
}
