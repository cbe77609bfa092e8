//! The resolution note as bytes: written anew, and found where it stands (gABI, "Note
//! Section": three 32-bit words, the owner, the descriptor, each padded).

use object::ReadRef;
use object::elf::PT_NOTE;

use crate::RewriteError;
use crate::format::Format;
use crate::image::{Image, bytes_at};

/// Owner of the resolution note, NUL included.
const OWNER: &[u8] = b"NixOS\0";
/// Type of the resolution note.
const KIND: u32 = 0x63a8_6cb6;
/// Lengths of owner and descriptor, and the type.
pub(crate) const HEADER_SIZE: u64 = 12;
/// The largest `PT_NOTE` that is looked into.
const SEGMENT_MAX: u64 = 16 << 20;

/// A resolution note in a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found<'data> {
    /// Where its header begins in the file.
    pub(crate) offset: u64,
    pub(crate) descriptor: &'data [u8],
}

impl Found<'_> {
    /// Where its type stands in the file.
    pub(crate) fn kind_offset(&self) -> u64 {
        self.offset + 8
    }
}

/// The note with that descriptor, padded to 4 bytes.
pub(crate) fn note(format: Format, descriptor: &[u8]) -> Result<Vec<u8>, RewriteError> {
    let length = u32::try_from(descriptor.len())
        .map_err(|_| RewriteError::BadString("a note cannot be larger than 4 GiB"))?;
    let mut bytes = Vec::with_capacity(20 + descriptor.len() + 3);
    bytes.extend(format.u32(OWNER.len() as u32));
    bytes.extend(format.u32(length));
    bytes.extend(format.u32(KIND));
    bytes.extend(OWNER);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes.extend(descriptor);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    Ok(bytes)
}

/// Each resolution note that a reader of `PT_NOTE` finds. What cannot be read is passed
/// over, as readers do.
pub(crate) fn resolution<'data, R: ReadRef<'data>>(image: &Image, data: R) -> Vec<Found<'data>> {
    let mut found: Vec<Found<'data>> = Vec::new();
    for segment in image.segments.iter().filter(|segment| segment.kind == PT_NOTE) {
        if segment.filesz > SEGMENT_MAX {
            continue;
        }
        let bytes = bytes_at(data, segment.offset, segment.filesz).unwrap_or_default();
        let align = if segment.align == 8 { 8 } else { 4 };
        let mut at = 0;
        while let Some((note, next)) = note_at(image.format, bytes, at, align) {
            if note.owner == OWNER && note.kind == KIND {
                let offset = segment.offset + at as u64;
                if found.iter().all(|found| found.offset != offset) {
                    found.push(Found { offset, descriptor: note.descriptor });
                }
            }
            at = next;
        }
    }
    found
}

struct Note<'data> {
    owner: &'data [u8],
    kind: u32,
    descriptor: &'data [u8],
}

/// The note at `at` and where the next one begins.
fn note_at(format: Format, bytes: &[u8], at: usize, align: usize) -> Option<(Note<'_>, usize)> {
    let bytes = bytes.get(at..)?;
    let owner_length = usize::try_from(format.read_u32(bytes, 0)?).ok()?;
    let descriptor_length = usize::try_from(format.read_u32(bytes, 4)?).ok()?;
    let kind = format.read_u32(bytes, 8)?;
    let owner = bytes.get(12..)?.get(..owner_length)?;
    let start = (12 + owner_length).next_multiple_of(align);
    let descriptor = bytes.get(start..)?.get(..descriptor_length)?;
    let next = at + (start + descriptor_length).next_multiple_of(align);
    Some((Note { owner, kind, descriptor }, next))
}
