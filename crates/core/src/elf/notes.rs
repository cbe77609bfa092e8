//! Reads notes from a `PT_NOTE`. The layout is that of the gABI ("Note Section"): three 32-bit
//! words, the owner and the descriptor, with padding after both.
//!
//! A loader ignores malformed notes, and so does this module. Only notes of more than the file's
//! budget are an error.

use bstr::{BString, ByteSlice};
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
    for note in notes(bytes, segment.align, view.ident.endian) {
        match (note.owner, note.kind) {
            _ if note.is_build_id() && view.build_id.is_none() => {
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

/// A note of a segment.
#[derive(Clone, Copy, Debug)]
pub struct Note<'data> {
    /// Offset in the segment.
    pub at: usize,
    /// The owner, NUL included (`n_namesz` counts it).
    pub owner: &'data [u8],
    /// The type.
    pub kind: u32,
    /// The descriptor.
    pub descriptor: &'data [u8],
}

impl Note<'_> {
    pub(super) fn is_build_id(&self) -> bool {
        (self.owner, self.kind) == (b"GNU\0", NT_GNU_BUILD_ID)
    }
}

/// Returns the notes in the bytes of a `PT_NOTE` up to the first that does not fit. `p_align` is that of
/// the segment.
pub fn notes(bytes: &[u8], p_align: u64, endian: Endian) -> impl Iterator<Item = Note<'_>> {
    // gABI: the padding is that of `p_align`. Any other value than 8 means 4.
    let align = if p_align == 8 { 8 } else { 4 };
    let mut at = 0;
    std::iter::from_fn(move || {
        // The padding of the last note may be missing.
        let rest = bytes.get(at..)?;
        let owner_len = usize::try_from(endian.u32(rest, 0)?).ok()?;
        let descriptor_len = usize::try_from(endian.u32(rest, 4)?).ok()?;
        let kind = endian.u32(rest, 8)?;
        let owner = rest.get(12..)?.get(..owner_len)?;
        let start = (12 + owner_len).next_multiple_of(align);
        let descriptor = rest.get(start..)?.get(..descriptor_len)?;
        let note = Note { at, owner, kind, descriptor };
        at += (start + descriptor_len).next_multiple_of(align);
        Some(note)
    })
}

/// Decodes the JSON of the `.note.dlopen`s of one object ([`super::Notes::dlopen`]): the sonames that it may
/// open with `dlopen` (UAPI group specification "ELF Dlopen Metadata"). Returns the sonames of the
/// alternative libraries of each feature, best first. Text that is not a JSON array is skipped, and so are
/// elements without a list of sonames.
#[must_use]
pub fn dlopen_sonames(notes: &[BString]) -> Vec<Vec<String>> {
    notes
        .iter()
        .filter_map(|note| serde_json::from_slice::<Vec<serde_json::Value>>(note).ok())
        .flatten()
        .filter_map(|mut entry| serde_json::from_value(entry.get_mut("soname")?.take()).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(text: &str) -> Vec<Vec<String>> {
        dlopen_sonames(&[BString::from(text)])
    }

    #[test]
    fn entry_with_every_field() {
        let text = r#"[{"feature":"lz4","description":"Compression","priority":"suggested",
            "soname":["liblz4.so.1","liblz4.so.0"]}]"#;
        assert_eq!(entries(text), [["liblz4.so.1".to_owned(), "liblz4.so.0".to_owned()]]);
    }

    #[test]
    fn malformed_text_and_elements_are_skipped() {
        assert!(entries("not json").is_empty());
        assert!(entries(r#"{"soname":["a"]}"#).is_empty());
        assert!(entries("\u{0}").is_empty());
        let mixed = entries(r#"[1, {"soname":"a"}, {"feature":"x"}, {"soname":["b"]}]"#);
        assert_eq!(mixed.len(), 1);
        assert_eq!(mixed[0], ["b"]);
        assert!(entries(&"[".repeat(100_000)).is_empty());
    }
}
