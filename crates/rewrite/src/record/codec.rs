//! Encodes and decodes the trailer, and the goal of an edit in it, to which a further edit can be added. One
//! description of a format serves to write and to read it.

use bstr::BString;

use super::{LEADER_SIZE, Range, Trailer};
use crate::fields::Fields;
use crate::goal::{Goal, Names, Needed};

const UNCHANGED: u8 = 0;
const ABSENT: u8 = 1;
const PRESENT: u8 = 2;

/// Writes the values that it is given, or replaces them by those that it reads. Numbers are little-endian.
/// Returns `None` if the bytes to read are invalid.
enum Wire<'a> {
    Write(Vec<u8>),
    Read(&'a [u8]),
}

impl Wire<'_> {
    fn array<const N: usize>(&mut self, value: &mut [u8; N]) -> Option<()> {
        match self {
            Self::Write(bytes) => bytes.extend(&value[..]),
            Self::Read(rest) => {
                (*value, *rest) = rest.split_first_chunk().map(|it| (*it.0, it.1))?
            }
        }
        Some(())
    }

    fn u64(&mut self, value: &mut u64) -> Option<()> {
        let mut bytes = value.to_le_bytes();
        self.array(&mut bytes)?;
        *value = u64::from_le_bytes(bytes);
        Some(())
    }

    fn u8(&mut self, value: &mut u8) -> Option<()> {
        self.array(std::array::from_mut(value))
    }

    fn flag(&mut self, value: &mut bool) -> Option<()> {
        let mut byte = u8::from(*value);
        self.u8(&mut byte)?;
        *value = byte != 0;
        Some(())
    }

    /// Writes all bytes, or reads so many. The size is checked against the remaining bytes.
    fn sized(&mut self, value: &mut Vec<u8>, size: u64) -> Option<()> {
        match self {
            Self::Write(bytes) => bytes.extend(&*value),
            Self::Read(rest) => {
                let (head, tail) = rest.split_at_checked(usize::try_from(size).ok()?)?;
                (*value, *rest) = (head.to_vec(), tail);
            }
        }
        Some(())
    }

    fn bytes(&mut self, value: &mut Vec<u8>) -> Option<()> {
        let mut size = value.len() as u64;
        self.u64(&mut size)?;
        self.sized(value, size)
    }

    /// Writes or reads a byte, which is `none` if there is no value, and the value.
    fn optional<T: Default>(
        &mut self,
        value: &mut Option<T>,
        none: u8,
        one: impl FnOnce(&mut Self, &mut T) -> Option<()>,
    ) -> Option<()> {
        let mut kind = if value.is_some() { PRESENT } else { none };
        self.u8(&mut kind)?;
        match kind {
            PRESENT => one(self, value.get_or_insert_default()),
            kind => (kind == none).then_some(()),
        }
    }

    fn list<T: Default>(
        &mut self,
        list: &mut Vec<T>,
        one: impl Fn(&mut Self, &mut T) -> Option<()>,
    ) -> Option<()> {
        let mut count = list.len() as u64;
        self.u64(&mut count)?;
        if let Self::Write(_) = self {
            return list.iter_mut().try_for_each(|value| one(self, value));
        }
        for _ in 0..count {
            let mut value = T::default();
            one(self, &mut value)?;
            list.push(value);
        }
        Some(())
    }

    fn string(&mut self, value: &mut Option<BString>) -> Option<()> {
        self.optional(value, ABSENT, |wire, value| wire.bytes(value))
    }

    fn trailer(&mut self, trailer: &mut Trailer) -> Option<()> {
        for value in [
            &mut trailer.original_length,
            &mut trailer.previous_end,
            &mut trailer.leader,
            &mut trailer.content,
            &mut trailer.start,
            &mut trailer.head_hash,
            &mut trailer.content_hash,
        ] {
            self.u64(value)?;
        }
        self.bytes(&mut trailer.goal)?;
        self.list(&mut trailer.ranges, |wire, range| {
            wire.u64(&mut range.offset)?;
            wire.bytes(&mut range.old)?;
            // As long as `old`, so its length is not stored again.
            wire.sized(&mut range.new, range.old.len() as u64)
        })
    }

    /// A goal, with the place of its note in the file.
    fn goal(&mut self, goal: &mut Goal, note: &mut Option<Option<(u64, u64)>>) -> Option<()> {
        let mut kind = note.map_or(UNCHANGED, |note| note.map_or(ABSENT, |_| PRESENT));
        self.u8(&mut kind)?;
        *note = match kind {
            UNCHANGED => None,
            ABSENT => Some(None),
            PRESENT => {
                let (mut offset, mut size) = note.flatten().unwrap_or_default();
                self.u64(&mut offset)?;
                self.u64(&mut size)?;
                Some(Some((offset, size)))
            }
            _ => return None,
        };
        self.string(&mut goal.interpreter)?;
        self.optional(&mut goal.names, UNCHANGED, Self::names)?;
        // A record without changed fields is as it was before there were such edits.
        let has_fields = match self {
            Self::Write(_) => goal.fields != Fields::default(),
            Self::Read(rest) => !rest.is_empty(),
        };
        if has_fields { self.fields(&mut goal.fields) } else { Some(()) }
    }

    fn names(&mut self, names: &mut Names) -> Option<()> {
        self.list(&mut names.needed, |wire, Needed { from, name }| {
            // A dynamic section of 2^32 entries was refused before.
            let mut index = from.map_or(u32::MAX, |from| from as u32).to_le_bytes();
            wire.array(&mut index)?;
            let index = u32::from_le_bytes(index);
            *from = (index != u32::MAX).then_some(index as usize);
            wire.bytes(name)
        })?;
        let Names { rpath, runpath, audit, soname, .. } = names;
        [rpath, runpath, audit, soname].into_iter().try_for_each(|value| self.string(value))
    }

    fn fields(&mut self, fields: &mut Fields) -> Option<()> {
        self.optional(&mut fields.os_abi, UNCHANGED, Self::u8)?;
        self.optional(&mut fields.executable_stack, UNCHANGED, Self::flag)?;
        self.flag(&mut fields.no_default_libraries)?;
        self.flag(&mut fields.debug_tag)?;
        self.list(&mut fields.unversioned, |wire, name| wire.bytes(name))
    }
}

fn written(write: impl FnOnce(&mut Wire<'_>) -> Option<()>) -> Vec<u8> {
    let mut wire = Wire::Write(Vec::new());
    // Only reading fails.
    let _ = write(&mut wire);
    match wire {
        Wire::Write(bytes) => bytes,
        Wire::Read(_) => Vec::new(),
    }
}

/// Encodes a goal. `note` is the offset and length of the note's descriptor in the file, which is not copied.
pub(super) fn encode(goal: &Goal, note: Option<(u64, u64)>) -> Vec<u8> {
    let mut place = goal.note.as_ref().map(|descriptor| descriptor.as_ref().and(note));
    written(|wire| wire.goal(&mut goal.clone(), &mut place))
}

/// Decodes a goal. `read` returns the bytes of the file at an offset.
pub(super) fn decode(bytes: &[u8], read: impl Fn(u64, u64) -> Option<Vec<u8>>) -> Option<Goal> {
    let (mut goal, mut place) = (Goal::default(), None);
    let mut wire = Wire::Read(bytes);
    wire.goal(&mut goal, &mut place)?;
    if let Some(place) = place {
        goal.note = Some(match place {
            Some((offset, size)) => Some(read(offset, size)?),
            None => None,
        });
    }
    matches!(wire, Wire::Read([])).then_some(goal)
}

impl Trailer {
    pub(super) fn encode(&mut self) -> Vec<u8> {
        written(|wire| wire.trailer(self))
    }

    /// Decodes a trailer. Returns `None` if the bytes are not a valid trailer.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut trailer = Self::default();
        let mut wire = Wire::Read(bytes);
        wire.trailer(&mut trailer)?;
        let mut end = 0;
        for Range { offset, old, .. } in &trailer.ranges {
            let next = offset.checked_add(old.len() as u64)?;
            // The undo writes these ranges: they must be inside the original and in order.
            if *offset < end || next > trailer.original_length {
                return None;
            }
            end = next;
        }
        let ordered = trailer.original_length <= trailer.leader
            && trailer.previous_end <= trailer.leader
            && trailer.leader.checked_add(LEADER_SIZE)? <= trailer.content
            && trailer.content <= trailer.start;
        (ordered && matches!(wire, Wire::Read([]))).then_some(trailer)
    }
}
