//! Reads notes from a `PT_NOTE`. The layout is that of the gABI ("Note Section"): three 32-bit
//! words, the owner and the descriptor, with padding after both.
//!
//! A loader ignores malformed notes, and so does this module. Only notes of more than the file's
//! budget are an error.

use bstr::ByteSlice;
use object::read::ReadRef;

use super::segment::Segment;
use super::source::Source;
use super::{ElfError, Endian, ObjectView};

/// `NT_GNU_BUILD_ID` as a plain number, owner `GNU`.
const NT_GNU_BUILD_ID: u32 = object::elf::NT_GNU_BUILD_ID.0;
/// The type of a resolution note, owner `NixOS`.
const NT_RESOLUTION: u32 = 0x63a8_6cb6;
/// The type of an FDO dlopen note, owner `FDO` (UAPI group, "ELF Dlopen Metadata").
const NT_FDO_DLOPEN: u32 = 0x407c_0c0a;

/// Adds the notes of one `PT_NOTE` to the view. The first build id and the first resolution note
/// count.
pub(super) fn read<'data, R: ReadRef<'data>>(
    view: &mut ObjectView,
    source: &Source<'data, R>,
    segment: &Segment,
) -> Result<(), ElfError> {
    // A file can have many `PT_NOTE`s over the same bytes.
    source.spend(segment.filesz.min(source.len()))?;
    let bytes = source.bytes(segment.offset, segment.filesz).unwrap_or_default();
    // gABI: the padding is that of `p_align`. Any other value than 8 means 4.
    let align = if segment.align == 8 { 8 } else { 4 };
    for note in (Walk { bytes, align, endian: view.ident.endian }) {
        match (note.owner, note.kind) {
            // `n_namesz` counts the NUL of the owner.
            (b"GNU\0", NT_GNU_BUILD_ID) if view.build_id.is_none() => {
                view.build_id = Some(note.descriptor.to_vec());
            }
            (b"NixOS\0", NT_RESOLUTION) if view.notes.resolution.is_none() => {
                view.notes.resolution = Some(note.descriptor.to_vec());
            }
            (b"FDO\0", NT_FDO_DLOPEN) => {
                view.notes.dlopen.push(note.descriptor.trim_end_with(|c| c == '\0').into());
            }
            _ => {}
        }
    }
    Ok(())
}

struct Note<'data> {
    owner: &'data [u8],
    kind: u32,
    descriptor: &'data [u8],
}

/// The notes of a segment up to the first that does not fit.
struct Walk<'data> {
    bytes: &'data [u8],
    align: usize,
    endian: Endian,
}

impl<'data> Iterator for Walk<'data> {
    type Item = Note<'data>;

    fn next(&mut self) -> Option<Note<'data>> {
        let owner_len = usize::try_from(self.endian.u32(self.bytes, 0)?).ok()?;
        let descriptor_len = usize::try_from(self.endian.u32(self.bytes, 4)?).ok()?;
        let kind = self.endian.u32(self.bytes, 8)?;
        let owner = self.bytes.get(12..)?.get(..owner_len)?;
        let at = (12 + owner_len).next_multiple_of(self.align);
        let descriptor = self.bytes.get(at..)?.get(..descriptor_len)?;
        // The padding of the last note may be missing.
        let next = (at + descriptor_len).next_multiple_of(self.align);
        self.bytes = self.bytes.get(next..).unwrap_or_default();
        Some(Note { owner, kind, descriptor })
    }
}
