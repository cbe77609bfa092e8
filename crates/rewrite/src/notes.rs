//! Writes and finds resolution notes (gABI, "Note Section": three 32-bit words, the owner and the
//! descriptor, with padding after both).

use becalm_core::elf::{self, Endian};
use object::elf::PT_NOTE;
use object::{Endian as _, Endianness};

use crate::image::Image;
use crate::{Result, RewriteError};

/// The name of the resolution note's section.
pub(crate) const NOTE_NAME: &[u8] = b".note.nixos.ldcache";
/// The owner of the resolution note, NUL included.
const OWNER: &[u8] = b"NixOS\0";
/// The type of the resolution note.
const KIND: u32 = 0x63a8_6cb6;
/// The size of the lengths of owner and descriptor, and of the type.
pub(crate) const HEADER_SIZE: u64 = 12;
/// The limit on the size of a `PT_NOTE`.
const SEGMENT_MAX: u64 = 16 << 20;

/// A resolution note in a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found<'data> {
    /// The file offset of its header.
    pub(crate) offset: u64,
    pub(crate) descriptor: &'data [u8],
}

/// Writes a resolution note with this descriptor, padded to 4 bytes.
///
/// # Errors
/// Returns [`RewriteError::BadString`] if the descriptor is larger than 4 GiB.
pub fn note(endian: Endian, descriptor: &[u8]) -> Result<Vec<u8>> {
    let number = |value| Endianness::from(endian).write_u32(value);
    let length = u32::try_from(descriptor.len())
        .map_err(|_| RewriteError::BadString("a note cannot be larger than 4 GiB"))?;
    let mut bytes = Vec::with_capacity(20 + descriptor.len() + 3);
    bytes.extend(number(OWNER.len() as u32));
    bytes.extend(number(length));
    bytes.extend(number(KIND));
    bytes.extend(OWNER);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes.extend(descriptor);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    Ok(bytes)
}

/// Finds each resolution note in a `PT_NOTE`. Malformed notes are skipped, as by all readers.
pub(crate) fn resolution<'data>(image: &Image<'data>) -> Vec<Found<'data>> {
    let mut found: Vec<Found<'data>> = Vec::new();
    for segment in image.segments.iter().filter(|segment| segment.kind == PT_NOTE) {
        if segment.filesz > SEGMENT_MAX {
            continue;
        }
        let bytes = image.bytes_at(segment.offset, segment.filesz).unwrap_or_default();
        for note in elf::notes(bytes, segment.align, image.format.endian) {
            let offset = segment.offset + note.at as u64;
            let is_resolution = note.owner == OWNER && note.kind == KIND;
            // Two `PT_NOTE`s can cover the same note.
            if is_resolution && found.iter().all(|found| found.offset != offset) {
                found.push(Found { offset, descriptor: note.descriptor });
            }
        }
    }
    found
}
