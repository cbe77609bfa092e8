//! Encodes and decodes the numbers and strings of a record, and the trailer.

use super::{Range, Trailer};

/// Writes little-endian numbers.
#[derive(Default)]
pub(super) struct Out(pub(super) Vec<u8>);

impl Out {
    pub(super) fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.u64(bytes.len() as u64);
        self.0.extend(bytes);
    }
}

/// Reads little-endian numbers. Every length is checked against the remaining bytes.
pub(super) struct In<'a>(pub(super) &'a [u8]);

impl<'a> In<'a> {
    pub(super) fn take(&mut self, size: u64) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(usize::try_from(size).ok()?)?;
        self.0 = rest;
        Some(head)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(*self.take(4)?.first_chunk()?))
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(*self.take(8)?.first_chunk()?))
    }

    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        let size = self.u64()?;
        self.take(size)
    }
}

impl Trailer {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Out::default();
        for value in [
            self.original_length,
            self.previous_end,
            self.leader,
            self.content,
            self.start,
            self.head_hash,
            self.content_hash,
        ] {
            out.u64(value);
        }
        out.bytes(&self.goal);
        out.u64(self.ranges.len() as u64);
        for range in &self.ranges {
            out.u64(range.offset);
            out.bytes(&range.old);
            // As long as `old`, so its length is not stored again.
            out.0.extend(&range.new);
        }
        out.0
    }

    /// Decodes a trailer. Returns `None` if the bytes are not a valid trailer.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = In(bytes);
        let mut trailer = Self {
            original_length: from.u64()?,
            previous_end: from.u64()?,
            leader: from.u64()?,
            content: from.u64()?,
            start: from.u64()?,
            head_hash: from.u64()?,
            content_hash: from.u64()?,
            goal: from.bytes()?.to_vec(),
            ranges: Vec::new(),
        };
        let count = from.u64()?;
        let mut end = 0;
        for _ in 0..count {
            let offset = from.u64()?;
            let old = from.bytes()?.to_vec();
            let new = from.take(old.len() as u64)?.to_vec();
            let next = offset.checked_add(old.len() as u64)?;
            // The undo writes these ranges: they must be inside the original and in order.
            if offset < end || next > trailer.original_length {
                return None;
            }
            end = next;
            trailer.ranges.push(Range { offset, old, new });
        }
        let ordered = trailer.original_length <= trailer.leader
            && trailer.previous_end <= trailer.leader
            && trailer.leader.checked_add(super::LEADER_SIZE)? <= trailer.content
            && trailer.content <= trailer.start;
        (ordered && from.0.is_empty()).then_some(trailer)
    }
}
